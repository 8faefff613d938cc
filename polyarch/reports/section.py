"""What a method adds to the report of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from polyarch.results import Role


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


@dataclass(frozen=True)
class Tile:
    """A number large enough to be read first."""

    label: str
    value: str
    note: str


@dataclass(frozen=True)
class Section:
    """The method's part of the report; what is left out is filled in as for any run.

    Args:
        template: a template that extends ``page.html`` and fills its blocks; without one the page stays as it is.
            Templates it includes lie in the same folder.
        sentences: the result in words, the two most important ones first.
        tiles: the numbers of the sentences.
        answer: the role of the contender that is highlighted.
        drawing: a picture of what was found, in place of the best architecture.
        spells_out: whether architectures are shown option by option: not where there is a choice per channel.
        modes: further values of ``polyarch predict --mode``, and what they do.
        charts: id -> Vega-Lite specification, for ``plot(id)`` in templates; a template draws those that it places.
        values: what the template uses beside ``results``.
    """

    template: Path | None = None
    sentences: Sequence[str] | None = None
    tiles: Sequence[Tile] | None = None
    answer: Role = Role.BEST
    drawing: Markup | None = None
    spells_out: bool = True
    modes: Mapping[str, str] = field(default_factory=dict)
    charts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
