"""Spirals: are learned depths those where fixed depths do best, and what does pruning keep? (figure 2, left)"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from polyarch_experiments.depth.spirals import QUICK, SPIRALS, depths, measure_fixed, measure_learned, values
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec, bars_and_points, summary
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import VARIATIONAL_DEPTH
from polyarch_experiments.results import Claim

LEARNED = "learned"


def items(settings: Settings) -> dict[str, int | None]:
    """The learned depth and every fixed depth; the seeds of each are trained side by side."""
    return {LEARNED: None, **{f"depth {depth}": depth for depth in settings["fixed_depths"]}}


def run(settings: Settings, depth: int | None, folder: Path) -> dict[str, Any]:
    """Networks of one kind, one per seed."""
    return measure_learned(settings) if depth is None else measure_fixed(settings, depth)


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Means over seeds; a claim about an ordering is supported when the ordering of the means holds."""
    learned = runs[LEARNED]
    pruned, full = values(learned, "pruned"), values(learned, "unpruned")
    accuracy = {kind: values(learned, kind, "accuracy") for kind in ("pruned", "unpruned", "alone")}
    fixed = {depth: values(runs[f"depth {depth}"], "test") for depth in settings["fixed_depths"]}
    means = {depth: statistics.fmean(found) for depth, found in fixed.items()}
    best = max(means, key=lambda depth: means[depth])
    mass = _mean_q(learned)
    shared = sum(mass[depth] for depth in means)
    under_q = sum(mass[depth] * mean for depth, mean in means.items()) / shared
    everywhere = statistics.fmean(means.values())
    chosen = [round(depth) for depth in depths(learned)]
    return [
        Claim(
            number=1,
            text="The depths that get probability are those where networks of fixed depth do best.",
            supported=under_q > everywhere and min(chosen) <= best <= max(chosen),
            numbers=f"mean log p of fixed depths: {under_q:.3f} averaged under q, {everywhere:.3f} averaged over all "
            f"depths; best fixed depth {best}, chosen depths {chosen}",
            document="fixed depths peak where q has its mass (D = 50, chosen depth 9)",
        ),
        Claim(
            number=1,
            text="The pruned network has a higher test log-likelihood than networks of every fixed depth.",
            supported=statistics.fmean(pruned) > means[best],
            numbers=f"mean log p: pruned {spread(pruned, 3)}, best fixed depth {best} {spread(fixed[best], 3)}, "
            f"fixed depth {max(means)} {spread(fixed[max(means)], 3)}; mean p: pruned "
            f"{spread(values(learned, 'pruned', 'mean_p'), 3)}",
            document="it does, for depths 1 to 50",
        ),
        Claim(
            text="Pruning keeps log-likelihood (within 0.01 nats) and accuracy (within 0.5 points) of the mixture.",
            supported=abs(statistics.fmean(pruned) - statistics.fmean(full)) <= 0.01
            and abs(statistics.fmean(accuracy["pruned"]) - statistics.fmean(accuracy["unpruned"])) <= 0.005,
            numbers=f"mean log p {spread(pruned, 4)} pruned, {spread(full, 4)} full; accuracy "
            f"{spread(accuracy['pruned'], 4)} pruned, {spread(accuracy['unpruned'], 4)} full, "
            f"{spread(accuracy['alone'], 4)} the chosen depth alone",
            document="pruned and full predictions agree",
        ),
    ]


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """The posterior with the fixed depths above it."""
    bars = [{"x": depth, "mean": value} for depth, value in enumerate(_mean_q(runs[LEARNED]))]
    points = [{"x": depth, **summary(values(runs[f"depth {depth}"], "test"))} for depth in settings["fixed_depths"]]
    title = f"Spirals, D = {settings['max_depth']}, {settings['seeds']} seeds"
    return {
        "posterior": bars_and_points(
            bars, points, "depth", "q(depth), mean over seeds", "test mean log p, fixed depth", title
        )
    }


def _mean_q(learned: dict[str, Any]) -> list[float]:
    """q averaged over seeds."""
    columns = zip(*(seed["q"] for seed in learned["seeds"]), strict=True)
    return [statistics.fmean(column) for column in columns]


SPIRAL_DEPTH = Experiment(
    name="spiral_depth",
    document=VARIATIONAL_DEPTH,
    claim="A learned, pruned depth beats networks of every fixed depth on spirals (figure 2, left).",
    presets={
        "quick": {**QUICK, "fixed_depths": [1, 3, 5]},
        "cpu": {**SPIRALS, "fixed_depths": list(range(1, 21))},
        "paper": {**SPIRALS, "max_depth": 50, "epochs": 100_000, "fixed_depths": list(range(1, 51))},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)
