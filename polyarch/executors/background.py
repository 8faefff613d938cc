"""One task that runs in its own process while the caller continues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import cast

from polyarch.errors import WorkerDied
from polyarch.executors.executor import Result
from polyarch.executors.processes import worker_pool


@contextmanager
def in_background(task: Callable[[], Result]) -> Iterator[Callable[[], Result]]:
    """Starts task() in a worker process with one thread and yields a function that waits for its result.

    The worker is terminated at the end of the block even if it is still busy; a task that writes checkpoints can resume
    from them next time.
    """
    with worker_pool(task, 1) as pool:
        future = pool.submit()

        def wait() -> Result:
            try:
                return cast(Result, future.result())
            except BrokenProcessPool:
                raise WorkerDied("Expected the background task to finish. Its process died.") from None

        try:
            yield wait
        finally:
            if not future.done():
                pool.terminate()
