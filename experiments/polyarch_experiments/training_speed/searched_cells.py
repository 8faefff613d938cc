"""What experiments on differentiable search share: a search by settings, and what is kept of its course."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polyarch.errors import MissingData, MissingExtra
from polyarch.methods.differentiable.recipes import RECIPES
from polyarch.methods.differentiable.record import DifferentiableRecord
from polyarch.methods.differentiable.strategy import recipe_settings
from polyarch.runs.stage import perform
from polyarch.runs.suggestion import merged
from polyarch.spaces import Space
from polyarch.tables import parse_architecture
from polyarch.tables.lookup import truth_for
from polyarch.training.search_diagnostics import measured_shape
from polyarch_experiments.experiment import Settings
from polyarch_experiments.figures import Spec, lines, summary
from polyarch_experiments.ranked_supernets import run_of

KEPT = (
    "loss", "q_loss", "valid_accuracy", "skips", "skip_share", "cell_depth", "cell_depth_normal", "cell_depth_reduce",
    "entropy_share", "eigenvalue", "true_accuracy",
)  # fmt: skip


def method_of(name: str) -> str:
    """The method of a search; a comma separates it from what is special about its settings."""
    return name.partition(",")[0]


def content_of(described: Settings, name: str, own: Settings) -> dict[str, Any]:
    """The description of the run of a search: that of all, what its method asks for, and its own settings."""
    method = method_of(name)
    recipe = recipe_settings(RECIPES[method], described["space"]["kind"])  # type: ignore[index]
    return merged(merged(merged(described, recipe), own), {"method": method})


def search(content: Mapping[str, Any], seed: int, folder: Path) -> dict[str, Any]:
    """One search; what is kept are its rows and its architectures, epoch by epoch.

    The last architecture is the one that is chosen: what q points at, within the limit on skips of P-DARTS.
    """
    run = replace(run_of({**content, "seed": seed}, folder), until="choose")
    started = time.monotonic()
    found = perform(run).record
    assert isinstance(found, DifferentiableRecord)
    chosen = run.net.space.architecture(found.architecture)
    rows = [*found.history[:-1], found.history[-1] | measured_shape(chosen)]
    return {
        "rows": [{name: round(row[name], 5) for name in KEPT if name in row} for row in rows],
        "architectures": [*found.architectures[:-1], chosen.key],
        "findings": found.findings,
        "seconds": round(time.monotonic() - started, 1),
    }


def with_accuracies(found: dict[str, Any], benchmark: str, space: Space) -> dict[str, Any]:
    """The same search with the ``true_accuracy`` (percent) of its cell after every epoch, if the benchmark is here."""
    try:
        truth = truth_for(benchmark, space)
        known = [truth.accuracy(parse_architecture(cell, space)) for cell in found["architectures"]]
    except (MissingData, MissingExtra):
        return found
    for row, accuracy in zip(found["rows"], known, strict=True):
        row["true_accuracy"] = round(accuracy, 3)
    return found


def values_at(searches: Sequence[Mapping[str, Any]], name: str, epoch: int) -> list[float]:
    """A value of every search after so many epochs; 0 stands for the last."""
    return [one["rows"][epoch - 1][name] for one in searches]


def ends(searches: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """A value of every search after its last epoch."""
    return values_at(searches, name, 0)


def courses(searches: Mapping[str, Sequence[Mapping[str, Any]]], name: str, title: str, **options: Any) -> Spec:
    """A value along the epochs, mean and spread over seeds, a curve per method."""
    rows = []
    for method, found in searches.items():
        sides = [one["rows"] for one in found]
        for epoch in range(min(map(len, sides), default=0)):
            values = [side[epoch][name] for side in sides if name in side[epoch]]
            if values:
                rows.append({"x": epoch + 1, "series": method, **summary(values)})
    return lines(rows, "epoch", title, **options)


def growth(rows: Sequence[Mapping[str, float]]) -> float | None:
    """The eigenvalue of the last third over that of the first third, means of each; None where it was not measured."""
    values = [row["eigenvalue"] for row in rows if "eigenvalue" in row]
    third = len(values) // 3
    if third < 1 or statistics.fmean(values[:third]) <= 0:
        return None
    return statistics.fmean(values[-third:]) / statistics.fmean(values[:third])
