"""Items that wait for a worker, and what happens to them when workers die."""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Generic

from polyarch.errors import WorkerDied
from polyarch.executors.executor import Item, Items

ATTEMPTS = 3
"""How many times a worker may die while an item is running before the item is given up."""


class Backlog(Generic[Item]):
    """Hands out items with their indices, first those whose workers died."""

    def __init__(self, items: Items[Item]) -> None:
        self._items = items
        self._begun = 0
        self._returned: deque[tuple[int, Item]] = deque()
        self.deaths: Counter[int] = Counter()

    def take(self, most: int) -> list[tuple[int, Item]]:
        """Up to so many items; none while the supply waits for results, or at its end."""
        taken = [self._returned.popleft() for _ in range(min(most, len(self._returned)))]
        wanted = most - len(taken)
        if wanted > 0:
            items = self._items
            new = items(wanted) if callable(items) else items[self._begun : self._begun + wanted]
            taken.extend(enumerate(new, self._begun))
            self._begun += len(new)
        return taken

    def give_back(self, taken: Iterable[tuple[int, Item]], *, died: bool = True) -> None:
        """Puts items in front; gives up one whose worker ``died`` too often while it was running."""
        ordered = sorted(taken, key=lambda one: one[0])
        for index, _ in ordered if died else ():
            self.deaths[index] += 1
            if self.deaths[index] >= ATTEMPTS:
                raise WorkerDied(
                    f"Expected item {index} to finish. A worker process died {ATTEMPTS} times while it was "
                    'running (out of memory, or a script without `if __name__ == "__main__":`?).'
                )
        self._returned.extendleft(reversed(ordered))
