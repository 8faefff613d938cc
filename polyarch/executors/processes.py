"""Worker processes that share the task's tensors read-only."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from polyarch.errors import InvalidInput, WorkerDied
from polyarch.executors.executor import Executor, Item, Mapper, Result

ATTEMPTS = 3
"""How often an item may be under way when a worker dies before it is given up."""


class Processes(Executor):
    """A number of worker processes with one thread each.

    The task is written once to a private temporary file and mapped into every worker: the weights and data are
    shared, and a write in one worker is its own (copy on write). Workers share no state with this process, so the task
    must pickle. If a worker dies, the items under way are run again in a new pool.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = len(os.sched_getaffinity(0)) if workers is None else workers
        if self.workers < 1:
            raise InvalidInput(f"Expected 1 or more workers. Got {self.workers}.")

    @contextmanager
    def open(self, task: Callable[[Item], Result]) -> Iterator[Mapper[Item, Result]]:
        """Starts the workers with the first item and ends them with the block."""
        with opened_crew(task, self.workers) as crew:
            yield crew.run


@contextmanager
def opened_crew(task: Callable[[Any], Any], workers: int) -> Iterator[Crew]:
    """Workers that share the task; they end with the block."""
    with tempfile.TemporaryDirectory(prefix="polyarch-") as folder:
        path = Path(folder) / "task.pt"
        torch.save(task, path)
        crew = Crew(path, workers)
        try:
            yield crew
        except BaseException:  # also Ctrl-C: whoever waits for an hour-long item wants to stop now
            crew.end()
            raise
        crew.close()


class Crew:
    """A process pool that is replaced when it breaks."""

    def __init__(self, path: Path, workers: int) -> None:
        self._path = path
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def run(self, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Runs the task over items; see `Mapper`."""
        waiting = deque(range(len(items)))
        attempts = [0] * len(items)
        running: dict[Future[Any], int] = {}
        while waiting or running:
            try:
                # No more than one item per worker is handed out, so that few are under way when one dies.
                while waiting and len(running) < self._workers:
                    future = self.submit(items[waiting[0]])
                    running[future] = waiting.popleft()
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    yield running.pop(future), result
            except BrokenProcessPool:
                for index in running.values():
                    attempts[index] += 1
                    if attempts[index] >= ATTEMPTS:
                        raise WorkerDied(
                            f"Expected item {index} to finish. A worker process died {ATTEMPTS} times with it "
                            "under way (out of memory?)."
                        ) from None
                waiting.extendleft(sorted(running.values(), reverse=True))
                running.clear()
                self.close()

    def end(self) -> None:
        """Ends the workers without waiting for what they do."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):
                process.terminate()
        self.close()

    def close(self) -> None:
        """Ends the pool when its items are done."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def submit(self, item: Any) -> Future[Any]:
        """Hands out one item."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._workers,
                mp_context=_clean_start(),
                initializer=_start_worker,
                initargs=(str(self._path),),
            )
        return self._pool.submit(_work, item)


def _clean_start() -> multiprocessing.context.BaseContext:
    """How workers start without the threads and locks of this process.

    On Linux they are forks of a server that has imported what is imported here and has done nothing else: a fork takes
    milliseconds, while importing torch again in every spawned worker of every stage takes seconds. Elsewhere system
    libraries may not survive a fork, and workers are spawned.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([name for name in sys.modules if name.partition(".")[0] == "polyarch"])
    return context


_task: Callable[[Any], Any]  # of this worker process, set once when it starts


def _start_worker(path: str) -> None:
    global _task
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    # A full unpickling is right here: the parent wrote this file a moment ago into a folder only it can write.
    _task = torch.load(path, weights_only=False, mmap=True)


def _end_with_parent() -> None:
    """A killed parent cannot close its pool, and its workers would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(item: Any) -> Any:
    return _task(item)
