"""The serial executor."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from polyarch.executors.backlog import Backlog
from polyarch.executors.executor import Executor, Item, Items, Mapper, Result, one_thread


class Serial(Executor):
    """Runs the items one after the other in this process."""

    @contextmanager
    def open(self, task: Callable[[Item], Result]) -> Iterator[Mapper[Item, Result]]:
        """Yields a mapper that keeps the order of the items."""

        def run(items: Items[Item]) -> Iterator[tuple[int, Result]]:
            backlog = Backlog(items)
            while taken := backlog.take(1):
                ((index, item),) = taken
                with one_thread():
                    result = task(item)
                yield index, result

        yield run
