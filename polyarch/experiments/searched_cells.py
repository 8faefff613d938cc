"""What experiments on differentiable search share: a search by settings, and what is kept of its course."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polyarch.experiments.experiment import Settings
from polyarch.experiments.figures import Spec, lines, summary
from polyarch.experiments.ranked_supernets import parts_of, runs_of, seeded, workspace_of
from polyarch.jobs.bilevel_parts import recipe_settings
from polyarch.jobs.choosing import merged
from polyarch.jobs.context import Context
from polyarch.jobs.display import Quiet
from polyarch.jobs.pipeline import run as run_pipeline
from polyarch.methods.differentiable import RECIPES

KEPT = (
    "loss", "q_loss", "valid_accuracy", "skips", "skip_share", "cell_depth", "cell_depth_normal", "cell_depth_reduce",
    "entropy_share", "eigenvalue", "true_accuracy",
)  # fmt: skip


def content_of(settings: Settings, method: str) -> dict[str, Any]:
    """The description of the run of a method: that of all methods, what the method asks for, and its own settings."""
    content: dict[str, Any] = merged(settings["run"], recipe_settings(RECIPES[method], settings["run"]["space"]["kind"]))  # type: ignore[index]
    return merged(merged(content, settings["own"].get(method, {})), {"method": method})


def items(settings: Settings) -> dict[str, tuple[str, int]]:
    """Every method with its seeds, all first seeds first."""
    return seeded(settings["methods"])


def run(settings: Settings, item: tuple[str, int], folder: Path) -> dict[str, Any]:
    """One search; what is kept are its rows and its architectures, epoch by epoch."""
    method, seed = item
    parts = parts_of({**content_of(settings, method), "seed": seed})
    place = folder / "searches" / f"{method}-{seed}"
    started = time.monotonic()
    results = run_pipeline(Context(parts, workspace_of(place, parts.settings), Quiet()), "train")
    found = results.differentiable
    assert found is not None
    return {
        "rows": [{name: round(row[name], 5) for name in KEPT if name in row} for row in found.history],
        "architectures": found.architectures,
        "findings": found.findings,
        "seconds": round(time.monotonic() - started, 1),
    }


def ends(settings: Settings, runs: Mapping[str, Any], method: str, name: str, *, at: float = 1.0) -> list[float]:
    """A value of every seed at this share of the epochs."""
    found = []
    for one in runs_of(runs, settings["methods"], method):
        rows = one["rows"]
        found.append(rows[max(round(at * len(rows)) - 1, 0)][name])
    return found


def courses(
    settings: Settings, runs: Mapping[str, Any], methods: Sequence[str], name: str, title: str, **options: Any
) -> Spec:
    """A value along the epochs, mean and spread over seeds, a curve per method."""
    rows = []
    for method in methods:
        sides = [one["rows"] for one in runs_of(runs, settings["methods"], method)]
        for epoch in range(min(map(len, sides))):
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
