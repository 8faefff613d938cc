"""Spirals: are learned depths those where fixed depths do best, and do they predict better? (figure 2, left)"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np

from polyarch.ranking import Interval
from polyarch.ranking.bootstrap import Positions, Resamples
from polyarch_experiments.depth.spirals import QUICK, SPIRALS, depths, measure_fixed, measure_learned, values, weighted
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec, bars_and_points, side_by_side, summary
from polyarch_experiments.measures import rank_correlation, spread
from polyarch_experiments.papers import VARIATIONAL_DEPTH
from polyarch_experiments.results import Claim
from polyarch_experiments.verdict import claim, finding, interval_in_words, over_seeds, paired

LEARNED = "learned"
POSTERIORS = {"q": "learned q", "exact": "exact posterior"}


def items(settings: Settings) -> dict[str, int | None]:
    """The learned depth and every fixed depth; the seeds of each are trained side by side."""
    return {LEARNED: None, **{f"depth {depth}": depth for depth in settings["fixed_depths"]}}


def run(settings: Settings, depth: int | None, folder: Path) -> dict[str, Any]:
    """Networks of one kind, one per seed."""
    return measure_learned(settings) if depth is None else measure_fixed(settings, depth)


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Rank correlations with bootstrap intervals, and differences paired by seed with Student's."""
    learned = runs[LEARNED]
    found = {name: probability_against_score(settings, runs, name) for name in POSTERIORS}
    numbers = f"best fixed depth on average {_best(settings, runs)}, chosen from the learned q "
    numbers += f"{[round(depth) for depth in depths(learned, source='learned_depths')]}, from the exact posterior "
    numbers += f"{[round(depth) for depth in depths(learned)]}"
    document = "fixed depths peak where q has its mass (D = 50, chosen depth 9)"
    claims = [
        claim(
            f"Depths with more probability by the {shown_name} are those where networks of fixed depth do better.",
            [finding("Spearman of probability and test mean log p over depths", found[name], above=0)],
            numbers,
            number=1 if name == "q" else None,
            document=document if name == "q" else "not in the paper",
            ours="a rank correlation above 0, by a bootstrap over depths and seeds",
        )
        for name, shown_name in POSTERIORS.items()
    ]
    return [*claims, *against_fixed(settings, runs), _pruning(learned)]


def probability_against_score(settings: Settings, runs: dict[str, Any], name: str) -> Interval:
    """Spearman's correlation over depths of probability and test mean log p of fixed depths, both means over seeds.

    With a bootstrap over depths and seeds: the seeds of a bootstrap sample are those of both sides.
    """
    shown_depths = settings["fixed_depths"]
    q = np.array([[seed[name][depth] for depth in shown_depths] for seed in runs[LEARNED]["seeds"]])  # (seeds, depths)
    truth = np.array([values(runs[f"depth {depth}"], "test") for depth in shown_depths]).T

    def estimate(seeds: Positions, rows: Positions) -> float | None:
        first, second = (side[seeds][:, rows].mean(0).tolist() for side in (q, truth))
        return rank_correlation(first, second) if len(set(rows.tolist())) > 2 else None

    samples = Resamples(len(shown_depths), seeds=len(q))
    return samples.interval(samples.whole(estimate), samples.draws(estimate))


def chosen_fixed(settings: Settings, runs: dict[str, Any]) -> list[dict[str, Any]]:
    """The network of fixed depth with the highest validation mean log p, seed by seed, with its ``depth``."""
    found = []
    for seed in range(settings["seeds"]):
        sides = {depth: runs[f"depth {depth}"]["seeds"][seed] for depth in settings["fixed_depths"]}
        depth = max(sides, key=lambda one: sides[one]["valid"])
        found.append({**sides[depth], "depth": depth})
    return found


def against_fixed(settings: Settings, runs: dict[str, Any], where: str = "") -> list[Claim]:
    """The mixture of a learned depth against the fixed depth that validation points choose, paired by seed.

    As in the paper, with the learned q, and with weights that validation points choose, or fit, as well.
    """
    learned, fixed = runs[LEARNED], chosen_fixed(settings, runs)
    theirs = [seed["test"]["mean_log_p"] for seed in fixed]
    taken = ", ".join(seed["weighting"] for seed in learned["seeds"])
    best = _best(settings, runs)
    told = f"fixed depth {spread(theirs, 3)} (depths {[seed['depth'] for seed in fixed]}); best fixed depth by test "
    told += f"points, {best}: {spread(values(runs[f'depth {best}'], 'test'), 3)}"
    others = ", ".join(f"{name} {spread(weighted(learned, name), 3)}" for name in ("exact", "stacked"))
    sides = {
        "weighted by the learned q,": (weighted(learned, "learned"), f"by other weights: {others}"),
        "weighted by what validation data prefer,": (values(learned, "pruned"), taken),
    }
    return [
        claim(
            f"The pruned mixture, {way} has a higher test log-likelihood than the fixed depth chosen on validation "
            f"data{where}.",
            [finding("difference of mean log p", paired(ours, theirs), above=0)],
            f"mixture {spread(ours, 3)} ({aside}), {told}",
            number=1,
            document="it does with q, against depths 1 to 50",
        )
        for way, (ours, aside) in sides.items()
    ]


def _pruning(learned: dict[str, Any]) -> Claim:
    sides = {
        name: (paired(weighted(learned, weights), values(learned, full)),
               paired(weighted(learned, weights, "accuracy"), values(learned, full, "accuracy")))
        for name, weights, full in (("learned", "learned", "unpruned learned"), ("exact", "exact", "unpruned"))
    }  # fmt: skip
    log_p, accuracy = sides["learned"]
    exact = ", ".join(interval_in_words(one, 4) for one in sides["exact"])
    return claim(
        "Pruning keeps the log-likelihood (within 0.01 nats) and accuracy (within 0.5 points) of the mixture.",
        [
            finding("pruned minus full, mean log p", log_p, above=-0.01, below=0.01),
            finding("accuracy", accuracy, above=-0.005, below=0.005),
        ],
        f"with the exact posterior {exact}; KL(learned || exact) "
        f"{interval_in_words(over_seeds([seed['kl'] for seed in learned['seeds']]), 2)} nats",
        document="pruned and full predictions agree",
        ours="0.01 nats and 0.5 points, for the learned q as in the paper",
    )


def _best(settings: Settings, runs: dict[str, Any]) -> int:
    """The fixed depth with the highest mean log p on test points."""
    means: dict[int, float] = {
        depth: statistics.fmean(values(runs[f"depth {depth}"], "test")) for depth in settings["fixed_depths"]
    }
    return max(means, key=lambda depth: means[depth])


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Both posteriors with the fixed depths above them."""
    points = [{"x": depth, **summary(values(runs[f"depth {depth}"], "test"))} for depth in settings["fixed_depths"]]
    panels = []
    for name, title in POSTERIORS.items():
        columns = zip(*(seed[name] for seed in runs[LEARNED]["seeds"]), strict=True)
        bars = [{"x": depth, "mean": statistics.fmean(column)} for depth, column in enumerate(columns)]
        panels.append(
            bars_and_points(
                bars,
                points,
                "depth",
                "probability, mean over seeds",
                "test mean log p, fixed depth",
                f"{title.capitalize()}, D = {settings['max_depth']}",
            )
        )
    return {"posterior": side_by_side(*panels)}


FIXED_DEPTHS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50]
SPIRAL_DEPTH = Experiment(
    name="spiral_depth",
    document=VARIATIONAL_DEPTH,
    claim="A learned, pruned depth beats networks of every fixed depth on spirals (figure 2, left).",
    presets={
        "quick": {**QUICK, "fixed_depths": [1, 3, 5]},
        "cpu": {**SPIRALS, "max_depth": 50, "epochs": 8000, "fixed_depths": FIXED_DEPTHS},
        "paper": {**SPIRALS, "max_depth": 50, "epochs": 8000, "fixed_depths": list(range(1, 51))},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)
