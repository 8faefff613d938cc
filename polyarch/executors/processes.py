"""Worker processes that share the task's tensors read-only."""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch

from polyarch.errors import InvalidInput, WorkerDied
from polyarch.executors.backlog import Backlog
from polyarch.executors.executor import Executor, Item, Items, Mapper, Result


class Processes(Executor):
    """Worker processes with one thread each; by default one per available core.

    The task is written once to a private temporary file and memory-mapped into every worker, so that all of them share
    its weights and data; a worker that writes to them changes only its own copy (copy on write). The task must pickle.
    If a worker dies, its pool is replaced and the items that were running start again.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = available_cores() if workers is None else workers
        if self.workers < 1:
            raise InvalidInput(f"Expected 1 or more workers. Got {self.workers}.")

    @contextmanager
    def open(self, task: Callable[[Item], Result]) -> Iterator[Mapper[Item, Result]]:
        """Starts the workers with the first item and stops them at the end of the block."""
        with worker_pool(task, self.workers) as pool:
            yield pool.run


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def worker_pool(task: Callable[..., Any], workers: int) -> "Iterator[WorkerPool]":
    """Workers that share the task and stop at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="polyarch-") as folder:
        path = Path(folder) / "task.pt"
        torch.save(task, path)
        pool = WorkerPool(path, workers)
        try:
            yield pool
        except BaseException:  # includes Ctrl-C: nobody wants to wait for an item that takes an hour
            pool.terminate()
            raise
        pool.close()


@contextmanager
def in_background(task: Callable[[], Result]) -> Iterator[Callable[[], Result]]:
    """Starts task() in a worker process with one thread and yields a function that waits for its result.

    The worker is terminated at the end of the block even if it is still busy; a task that writes checkpoints can resume
    from them next time.
    """
    with worker_pool(task, 1) as pool:
        future: Future[Any] = Future()
        try:
            future = pool.submit()
        except BrokenProcessPool as error:
            future.set_exception(error)

        def wait_for_result() -> Result:
            try:
                return cast(Result, future.result())
            except BrokenProcessPool:
                raise WorkerDied("Expected the background task to finish. Its process died.") from None

        try:
            yield wait_for_result
        finally:
            if not future.done():
                pool.terminate()


class WorkerPool:
    """A process pool that is replaced when it breaks."""

    def __init__(self, path: Path, workers: int) -> None:
        self._path = path
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def run(self, items: Items[Any]) -> Iterator[tuple[int, Any]]:
        """Runs the task over items; see `Mapper`."""
        backlog = Backlog(items)
        running: dict[Future[Any], tuple[int, Any]] = {}
        starting: list[tuple[int, Any]] = []
        while True:
            try:
                # Each worker has at most one item, so that few are lost when one dies.
                while len(running) < self._workers and (starting := backlog.take(1)):
                    running[self.submit(starting[0][1])] = starting[0]
                starting = []
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    yield running.pop(future)[0], result
            except BrokenProcessPool:
                self.close()
                backlog.give_back(starting, died=not running)  # workers that cannot even start
                backlog.give_back(running.values())
                running.clear()

    def submit(self, *arguments: Any) -> Future[Any]:
        """Hands task(*arguments) to a worker."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._workers, mp_context=start_method(), initializer=_start_worker, initargs=(str(self._path),)
            )
        try:
            with _importable_main():  # this is where workers start
                return self._pool.submit(_work, *arguments)
        except (EOFError, ConnectionError) as error:  # the fork server died while it started one
            raise BrokenProcessPool(str(error)) from None

    def close(self) -> None:
        """Waits for running items and closes the pool."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def terminate(self) -> None:
        """Stops the workers without waiting for running items."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):
                process.terminate()
        self.close()


def start_method() -> multiprocessing.context.BaseContext:
    """Starts workers without the threads and locks of this process.

    On Linux a fork server imports the modules that are loaded here and does nothing else: forking it takes
    milliseconds, whereas a spawned worker spends seconds importing torch. Elsewhere system libraries may not survive a
    fork, so workers are spawned.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([name for name in sys.modules if name.partition(".")[0] == "polyarch"])
    return context


@contextmanager
def _importable_main() -> Iterator[None]:
    """Hides the name of a program that was read from standard input: workers would look for such a file, and die."""
    main = sys.modules["__main__"]
    name = getattr(main, "__file__", None)
    if name is None or Path(name).exists():
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = name


_task: Callable[..., Any]  # of this worker process, set once when it starts


def _start_worker(path: str) -> None:
    global _task
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent decides
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    # Full unpickling is safe here: the parent has just written this file into a folder that only it can write to.
    _task = torch.load(path, weights_only=False, mmap=True)


def _exit_with_parent() -> None:
    """Exits when the parent is killed, which cannot close its pool: the worker would wait for work forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(*arguments: Any) -> Any:
    return _task(*arguments)
