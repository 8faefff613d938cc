"""What a person sees while a job runs: progress bars with the time left, or nothing."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

Report = Callable[[int, int, str], None]
"""Done so far, total, and a few words on how it stands."""


class Display(Protocol):
    """Shows what a job does."""

    def say(self, message: str | Table) -> None:
        """A line or a table."""

    def stage(self, title: str) -> AbstractContextManager[Report]:
        """A progress bar for the duration of the block."""


class Quiet:
    """Shows nothing."""

    def say(self, message: str | Table) -> None:
        """Drops it."""

    @contextmanager
    def stage(self, title: str) -> Iterator[Report]:
        """A report that goes nowhere."""
        yield lambda done, total, note: None


class Terminal:
    """Rich progress bars; plain lines where the output is not a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)

    def say(self, message: str | Table) -> None:
        """Prints it."""
        self.console.print(message, markup=False) if isinstance(message, str) else self.console.print(message)

    @contextmanager
    def stage(self, title: str) -> Iterator[Report]:
        """A bar with count, elapsed time, time left and a note."""
        columns = (
            TextColumn("{task.description:<9}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self.console, refresh_per_second=4) as progress:
            task = progress.add_task(title, total=None, note="")
            yield lambda done, total, note: progress.update(task, completed=done, total=total, note=note)


def several(number: int, noun: str) -> str:
    """A count with its noun: 1 seed, 3 seeds."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"
