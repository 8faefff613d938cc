"""A search by gradients in words: what q points at, how sure it is, and what went wrong on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from polyarch.reports.words import SPACE, key_of, percent, several
from polyarch.results import DifferentiableRecord

SHOWN = 20
CELLS = {"cell_depth": "cell", "cell_depth_normal": "normal cell", "cell_depth_reduce": "reduction cell"}
CELL_DEPTHS = {key: f"depth of the {cell}" for key, cell in CELLS.items()}
_SURE = ((0.1, "sure"), (0.5, "fairly sure"), (0.9, "not sure"))
"""Shares of the largest entropy below which a word fits."""
_GRADIENTS = {
    "first_order": "of the held-out loss",
    "second_order": "of the held-out loss after one more step of the weights",
    "second_order_difference": "of the held-out loss after one more step of the weights, by differences",
    "sotl": "of the sum of training losses",
    "sotl_exact": "of the sum of training losses, through all steps",
    "sovl": "of the sum of held-out losses",
}


@dataclass(frozen=True)
class Change:
    """An epoch after which q pointed at another architecture than before, and what is known of that one."""

    epoch: int
    key: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class DifferentiablePart:
    """What the report says; ``changes`` are the last ones, out of ``changed``."""

    sentences: tuple[str, ...]
    gradient: str
    key: str
    headings: tuple[str, ...]
    changes: tuple[Change, ...]
    changed: int


def differentiable_part(found: DifferentiableRecord | None) -> DifferentiablePart | None:
    """The part of the report, where a run searched by gradients."""
    if found is None:
        return None
    columns = _columns(found)
    changes = [
        Change(epoch, key, tuple(_cell(found.history[epoch], column) for column in columns))
        for epoch, key in enumerate(found.architectures)
        if not epoch or key != found.architectures[epoch - 1]
    ]
    return DifferentiablePart(
        tuple(_sentences(found)),
        _GRADIENTS.get(found.gradient, found.gradient),
        key_of(found.architecture),
        tuple(columns.values()),
        tuple(changes[-SHOWN:]),
        len(changes),
    )


def kept_epoch(found: DifferentiableRecord) -> int:
    """The epoch whose q counts: the last one, unless the search went back."""
    return len(found.architectures) - 1 if found.back_to is None else found.back_to


def _sentences(found: DifferentiableRecord) -> Iterator[str]:
    if not found.architectures:
        yield "No epoch has been finished yet."
        return
    epoch = kept_epoch(found)
    row = found.history[epoch]
    counted = [f"{several(int(row['skips']), 'skip')} ({_whole(row['skip_share'])} of its operations)"]
    counted += [f"a {cell} {row[key]:.0f} deep" for key, cell in CELLS.items() if key in row]
    yield f"After epoch {epoch} q points at an architecture with {_listed(counted)}."
    words = next((words for limit, words in _SURE if row["entropy_share"] < limit), "undecided")
    yield f"q is {words}: its entropy is {_whole(row['entropy_share'])} of what it could be."
    since = epoch
    while since and found.architectures[since - 1] == found.architectures[epoch]:
        since -= 1
    yield f"It has pointed there since epoch {since}."
    if key_of(found.architecture) != found.architectures[epoch]:
        yield f"The architecture that was chosen is another one, by {found.discretisation}."
    truths = {int(one["epoch"]): one["true_accuracy"] for one in found.history if "true_accuracy" in one}
    if epoch in truths:
        best = max(truths, key=lambda known: truths[known])
        yield (
            f"A table knows its true accuracy: {percent(truths[epoch] / 100)}; the best that q ever pointed at has "
            f"{percent(truths[best] / 100)} (epoch {best})."
        )
    if found.findings:
        yield f"The guard against collapse says: {found.findings[0]}"


def _columns(found: DifferentiableRecord) -> dict[str, str]:
    names = {"skips": "skips", **CELL_DEPTHS, "entropy_share": "entropy", "true_accuracy": "true accuracy"}
    return {key: name for key, name in names.items() if any(key in row for row in found.history)}


def _cell(row: dict[str, float], column: str) -> str:
    if column not in row:
        return "–"
    value = row[column]
    return {"entropy_share": percent(value), "true_accuracy": percent(value / 100)}.get(column, f"{value:.0f}")


def _whole(share: float) -> str:
    return f"{100 * share:.0f}{SPACE}%"


def _listed(words: list[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
