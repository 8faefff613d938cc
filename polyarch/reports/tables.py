"""The tables of the report: the top of the search, the members of ensembles, and the predictors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyarch.reports.searched import best_architecture, ordered
from polyarch.reports.words import count, estimator_name, figures, key_of
from polyarch.results import PredictorRecord, Results, ScoredArchitecture

TOP = 20


@dataclass(frozen=True)
class Cell:
    """What is shown, and the number that sorts it; text has none."""

    shown: str
    number: float | None = None


@dataclass(frozen=True)
class Line:
    """A row of the table; the best architecture's is highlighted."""

    cells: tuple[Cell, ...]
    is_best: bool


@dataclass(frozen=True)
class Table:
    """Headings and lines, in order of the first column; ``keys`` are the columns with names instead of numbers."""

    headings: tuple[str, ...]
    lines: tuple[Line, ...]
    keys: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Membership:
    """A member of an ensemble and its share; ``bar`` is the share of the largest one, for a bar as wide."""

    key: str
    weight: float
    bar: float


def top(results: Results) -> Table | None:
    """The best of the search by its first objective."""
    if results.search is None or not results.search.evaluated:
        return None
    items = ordered(results.search)[:TOP]
    best = best_architecture(results)
    names = [score.estimator for score in items[0].scores if not _repeats_parameters(score.estimator, items)]
    has_truth = any(item.truth is not None for item in items)
    headings = ["#", "architecture", "parameters", *(_heading(items[0], name) for name in names)]
    lines = []
    for position, item in enumerate(items, start=1):
        cells = [
            Cell(str(position), position),
            Cell(key_of(item.architecture)),
            Cell(count(item.parameters), item.parameters),
            *(Cell(figures(item.score(name)), item.score(name)) for name in names),
        ]
        if has_truth:
            cells.append(Cell("–") if item.truth is None else Cell(figures(item.truth), item.truth))
        lines.append(Line(tuple(cells), item.architecture == best))
    return Table(tuple([*headings, "truth"] if has_truth else headings), tuple(lines))


def memberships(predictor: PredictorRecord) -> list[Membership]:
    """The members of an ensemble, the heaviest first."""
    largest = max(predictor.weights, default=1.0) or 1.0
    pairs = sorted(zip(predictor.members, predictor.weights, strict=True), key=lambda pair: -pair[1])
    return [Membership(key_of(member), weight, weight / largest) for member, weight in pairs]


def _repeats_parameters(estimator: str, items: Sequence[ScoredArchitecture]) -> bool:
    return estimator == "params" and all(item.score(estimator) == item.parameters for item in items)


def _heading(item: ScoredArchitecture, estimator: str) -> str:
    policy = next(score.policy for score in item.scores if score.estimator == estimator)
    return f"{estimator_name(estimator)} ({policy})" if policy else estimator_name(estimator)
