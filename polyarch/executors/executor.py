"""What every executor can do: run one task over many items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

Mapper = Callable[[Sequence[Item]], Iterator[tuple[int, Result]]]
"""Runs the task over items and yields (index of the item, result) as they finish."""


class Executor(ABC):
    """Runs a task over items with one thread each: the same bits from every executor, in any order."""

    @abstractmethod
    def open(self, task: Callable[[Item], Result]) -> AbstractContextManager[Mapper[Item, Result]]:
        """Sets up workers for the task; the mapper inside can be used many times."""


class Serial(Executor):
    """One item after the other in this process."""

    @contextmanager
    def open(self, task: Callable[[Item], Result]) -> Iterator[Mapper[Item, Result]]:
        """A mapper that runs in order."""

        def run(items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
            for index, item in enumerate(items):
                with one_thread():
                    result = task(item)
                yield index, result

        yield run


@contextmanager
def one_thread() -> Iterator[None]:
    """One intra-op thread: sums are then taken in one order, so results do not depend on the machine's load."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
