"""Early elimination: the architectures that lasted longest, and when the others stopped."""

from __future__ import annotations

from dataclasses import dataclass

from polyarch.reports.words import key_of
from polyarch.results import EliminatedArchitecture, EliminationRecord

SHOWN = 20


@dataclass(frozen=True)
class EliminationLine:
    """A row of the table."""

    key: str
    parameters: int
    steps: int
    loss: str


@dataclass(frozen=True)
class EliminationPart:
    """What the report says; ``rule`` says when how many stopped."""

    rule: str
    lines: tuple[EliminationLine, ...]


def elimination_part(found: EliminationRecord | None) -> EliminationPart | None:
    """The part of the report, where a run eliminated any."""
    if found is None:
        return None
    *_, end = found.rungs  # the end of the short run, after which nobody has to stop
    stops = [str(rung) for rung in found.rungs if rung < end]
    rule = f"after {_listed(stops)} steps the worse half stopped" if stops else "nobody had to stop early"
    return EliminationPart(rule, tuple(_line(one) for one in found.architectures[:SHOWN]))


def _listed(words: list[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _line(one: EliminatedArchitecture) -> EliminationLine:
    loss = "diverged" if one.value is None else f"{-one.value:.2f}"
    return EliminationLine(key_of(one.architecture), one.parameters, one.steps, loss)
