"""Tables that sort by any column."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """What is shown, and the number that sorts it; text has none."""

    shown: str
    number: float | None = None


@dataclass(frozen=True)
class Line:
    """A row of the table; the best one is highlighted."""

    cells: tuple[Cell, ...]
    is_best: bool = False


@dataclass(frozen=True)
class SortableTable:
    """Headings and lines, in order of the first column; ``keys`` are the columns with names instead of numbers."""

    headings: tuple[str, ...]
    lines: tuple[Line, ...]
    keys: tuple[int, ...] = (1,)
