"""One task in a process of its own while this one goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from polyarch.errors import WorkerDied
from polyarch.executors.executor import Result
from polyarch.executors.processes import opened_crew


@dataclass(frozen=True)
class _Alone:
    """A task without items."""

    task: Callable[[], Any]

    def __call__(self, item: None) -> Any:
        return self.task()


@contextmanager
def in_background(task: Callable[[], Result]) -> Iterator[Callable[[], Result]]:
    """Starts task() in a worker process with one thread; what is yielded waits for the result.

    The worker ends with the block, whether it is done or not: a task that keeps checkpoints goes on the next time.
    """
    with opened_crew(_Alone(task), 1) as crew:
        future = crew.submit(None)

        def wait() -> Result:
            try:
                return cast(Result, future.result())
            except BrokenProcessPool:
                raise WorkerDied("Expected the task in the background to finish. Its process died.") from None

        try:
            yield wait
        finally:
            if not future.done():
                crew.end()
