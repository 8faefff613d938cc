"""Spirals: how the learned depth changes with the maximum depth, the width, the rotation and the number of points.

Figures 2 (right), 5 and 6: each experiment changes one setting and keeps the others.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyarch_experiments.depth.spirals import QUICK, SPIRALS, depths, mean_depth, measure_learned, values
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec, side_by_side, summary, with_spread
from polyarch_experiments.measures import rank_correlation, spread
from polyarch_experiments.papers import VARIATIONAL_DEPTH
from polyarch_experiments.results import Claim

Judge = Callable[[Settings, dict[str, Any]], list[Claim]]

TITLES = {
    "max_depth": "maximum depth D", "width": "width", "rotation": "rotation in degrees", "train": "training points"
}  # fmt: skip

STABLE = 0.05
"""Nats: mean log p counts as stable when its means differ by no more."""


def items(settings: Settings) -> dict[str, float]:
    """The values of the setting that changes."""
    return {_name(settings, value): value for value in settings["values"]}


def run(settings: Settings, value: float, folder: Path) -> dict[str, Any]:
    """Networks with learned depth at one value, one per seed."""
    return measure_learned({**settings, settings["changes"]: value})


def _name(settings: Settings, value: float) -> str:
    return f"{settings['changes']} {value}"


def _at(settings: Settings, runs: dict[str, Any], value: float) -> dict[str, Any]:
    found: dict[str, Any] = runs[_name(settings, value)]
    return found


def _numbers(settings: Settings, runs: dict[str, Any]) -> str:
    """The chosen depth and the test log-likelihood at every value."""
    parts = []
    for value in settings["values"]:
        one = _at(settings, runs, value)
        parts.append(f"{value}: depth {spread(depths(one), 1)}, log p {spread(values(one, 'pruned'), 3)}")
    return "; ".join(parts)


def _depth_correlation(settings: Settings, runs: dict[str, Any], most: float = float("inf")) -> float:
    """Spearman's correlation of the value with the mean chosen depth."""
    kept = [value for value in settings["values"] if value <= most]
    return rank_correlation(kept, [mean_depth(_at(settings, runs, value)) for value in kept])


def _range(settings: Settings, runs: dict[str, Any], low: float, high: float) -> tuple[float, float] | None:
    """How far the mean chosen depths and the mean log p at values in low..high lie apart; None for fewer than two."""
    kept = [_at(settings, runs, value) for value in settings["values"] if low <= value <= high]
    if len(kept) < 2:
        return None
    chosen = [mean_depth(one) for one in kept]
    logs = [statistics.fmean(values(one, "pruned")) for one in kept]
    return max(chosen) - min(chosen), max(logs) - min(logs)


def judge_max_depth(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Stable up to 50, unstable after."""
    apart = _range(settings, runs, 20, 50)
    shown = f"depths differ by {apart[0]:.1f}, log p by {apart[1]:.3f}; " if apart else ""
    beyond = [value for value in settings["values"] if value > 50]
    spreads = {value: _std(values(_at(settings, runs, value), "pruned")) for value in settings["values"]}
    before = max(spread for value, spread in spreads.items() if value <= 50)
    return [
        Claim(
            number=2,
            text="Chosen depth (within 2 blocks) and log-likelihood (within 0.05 nats) are stable for D = 20 to 50.",
            supported=apart[0] <= 2 and apart[1] <= STABLE if apart else None,
            numbers=shown + _numbers(settings, runs),
            document="both are stable up to about D = 50",
        ),
        Claim(
            number=2,
            text="Beyond D = 50 the results become unstable (larger spread over seeds).",
            supported=max(spreads[value] for value in beyond) > 1.5 * before if beyond else None,
            numbers=f"standard deviation of log p: at most {before:.3f} up to D = 50; "
            + "; ".join(f"{spreads[value]:.3f} at D = {value}" for value in beyond),
            document="both become unstable",
        ),
    ]


def judge_width(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Wider networks need fewer blocks."""
    correlation = _depth_correlation(settings, runs)
    apart = _range(settings, runs, 20, 500)
    widest = max(settings["values"])
    return [
        Claim(
            number=3,
            text="The chosen depth falls as the width grows.",
            supported=correlation <= -0.5,
            numbers=f"Spearman {correlation:.2f}; {_numbers(settings, runs)}",
            document="it falls over widths 1 to 1000",
        ),
        Claim(
            number=3,
            text=f"The test log-likelihood is stable (within 0.05 nats) for widths 20 to {min(widest, 500)}.",
            supported=apart[1] <= STABLE if apart else None,
            numbers=f"log p differs by {apart[1]:.3f}" if apart else "fewer than two widths in this range",
            document="stable for widths 20 to 500",
        ),
    ]


def judge_rotation(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """More complex data need more blocks."""
    correlation = _depth_correlation(settings, runs)
    return [
        Claim(
            number=4,
            text="The chosen depth grows with the rotation of the spirals.",
            supported=correlation >= 0.5,
            numbers=f"Spearman {correlation:.2f}; {_numbers(settings, runs)}",
            document="it grows with the rotation",
        )
    ]


def judge_points(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """More data allow more blocks, up to a point."""
    correlation = _depth_correlation(settings, runs, most=500)
    return [
        Claim(
            number=4,
            text="The chosen depth grows with the number of training points up to about 500.",
            supported=correlation >= 0.5,
            numbers=f"Spearman up to 500 points {correlation:.2f}; {_numbers(settings, runs)}",
            document="it grows until about 500 points and is stable from there",
        )
    ]


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """The chosen depth and the test log-likelihood over the setting that changes."""
    title = TITLES[settings["changes"]]
    chosen, logs = (
        [{"x": value, **summary(measure(_at(settings, runs, value)))} for value in settings["values"]]
        for measure in (depths, lambda one: values(one, "pruned"))
    )
    log = settings["changes"] in ("width", "train")
    return {
        settings["changes"]: side_by_side(
            with_spread(chosen, title, "chosen depth (argmax)", log=log),
            with_spread(logs, title, "test mean log p, pruned", log=log),
        )
    }


def _std(found: list[float]) -> float:
    return statistics.stdev(found) if len(found) > 1 else 0.0


def _sweep(
    name: str, claim: str, judge: Judge, changes: str, quick: list[int], cpu: list[int], paper: list[int]
) -> Experiment:
    return Experiment(
        name=name,
        document=VARIATIONAL_DEPTH,
        claim=claim,
        presets={
            "quick": {**QUICK, "changes": changes, "values": quick},
            "cpu": {**SPIRALS, "changes": changes, "values": cpu},
            "paper": {**SPIRALS, "changes": changes, "epochs": 100_000, "values": paper},
        },
        items=items,
        task=run,
        judge=judge,
        figures=figures,
    )


SPIRAL_MAX_DEPTH = _sweep(
    "spiral_max_depth",
    "Chosen depth and performance are stable as D grows to about 50 (figure 2, right).",
    judge_max_depth, "max_depth", [2, 4], [5, 10, 20, 30, 50, 75, 100],
    [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
)  # fmt: skip
SPIRAL_WIDTH = _sweep(
    "spiral_width",
    "The chosen depth falls as the width grows (figure 5).",
    judge_width, "width", [5, 20], [1, 2, 5, 10, 20, 50, 100], [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
)  # fmt: skip
SPIRAL_ROTATION = _sweep(
    "spiral_rotation",
    "The chosen depth grows with the complexity of the data (figure 6, left).",
    judge_rotation, "rotation", [180, 360], [90, 180, 360, 540, 720, 900, 1080],
    [0, 90, 180, 270, 360, 450, 540, 630, 720, 810, 900, 990, 1080],
)  # fmt: skip
SPIRAL_POINTS = _sweep(
    "spiral_points",
    "The chosen depth grows with the number of points (figure 6, right).",
    judge_points, "train", [50, 100], [50, 100, 200, 350, 500, 1000],
    [50, 100, 150, 200, 300, 400, 500, 700, 1000, 1500, 2000],
)  # fmt: skip
