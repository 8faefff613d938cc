"""The interface of executors, which run one task over many items, and the serial one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

Items = Sequence[Item] | Callable[[int], Sequence[Item]]
"""Items, or a function that gives up to so many further ones: none while they depend on results that are still to come,
or when there are no more."""

Mapper = Callable[[Items[Item]], Iterator[tuple[int, Result]]]
"""Runs the task over items and yields (index of the item, result) as they finish."""


class Executor(ABC):
    """Runs a task over items, one thread per item: every executor returns the same bits, in any order."""

    @abstractmethod
    def open(self, task: Callable[[Item], Result]) -> AbstractContextManager[Mapper[Item, Result]]:
        """Sets up workers for the task and yields a mapper that can be called many times."""


@contextmanager
def intra_op_threads(count: int | None) -> Iterator[None]:
    """Sets the number of torch's intra-op threads, then restores the caller's; None leaves it as it is.

    Threads sum parts of a batch separately, so that results of different numbers of threads differ in their last bits.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(threads if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def one_thread() -> AbstractContextManager[None]:
    """Limits torch to one intra-op thread: sums then have a fixed order, and results do not depend on the machine."""
    return intra_op_threads(1)
