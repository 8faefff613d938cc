"""What the terminal shows of a one-shot search."""

from collections.abc import Iterator

from rich.table import Column, Table
from rich.text import Text

from polyarch.methods.one_shot.record import EliminationRecord, OneShotRecord
from polyarch.results import Results


def summary(results: Results) -> Iterator[str | Table]:
    """The agreement of estimators, and what early elimination saved."""
    found = results.found(OneShotRecord) or OneShotRecord()
    if found.ranking:
        table = Table("estimator", f"Spearman with {found.ranking.reference}", "95 % interval")
        for name, quality in found.ranking.quality.items():
            interval = quality["spearman"]
            shown = ["-" if interval[key] is None else f"{interval[key]:.2f}" for key in ("value", "low", "high")]
            table.add_row(name, shown[0], f"{shown[1]} to {shown[2]}")
        yield table
    if found.elimination:
        yield from _elimination(found.elimination)


def _elimination(found: EliminationRecord) -> Iterator[str | Table]:
    """The best ten, and the steps that were saved."""
    table = Table("rank", Column("architecture", overflow="fold"), "steps", "sum of losses")
    for place, one in enumerate(found.architectures[:10], 1):
        loss = "diverged" if one.value is None else f"{-one.value:.2f}"
        table.add_row(str(place), Text("|".join(one.architecture.values())), str(one.steps), loss)
    yield table
    yield f"Steps: {found.spent:,} instead of {found.full_steps:,} ({found.spent / found.full_steps:.0%})."
