"""Claims on inter-choice weights of a chain: selection, agreement of seeds, costs, and the truth itself."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.ranking import Interval
from polyarch.ranking.bootstrap import bootstrap
from polyarch.ranking.correlations import correlation
from polyarch_experiments.experiment import Settings
from polyarch_experiments.interchoice.chain_networks import alone, supernets
from polyarch_experiments.interchoice.training_costs import increase
from polyarch_experiments.interchoice.weighted_supernets import agreement, correlations, gains
from polyarch_experiments.measures import spread
from polyarch_experiments.results import Claim

NEARLY_NOTHING = 1.05
"""More of the time of a step counts as a cost: the threshold is ours."""
RESAMPLES = 300


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Means over seeds."""
    kinds = list(settings["weights"])
    found = supernets(settings, runs, kinds)
    extra = [kind for kind in kinds if kind != "base"]
    gained = {kind: gains(ranked) for kind, ranked in found.items()}
    means = {kind: statistics.fmean(values) for kind, values in gained.items()}
    agreed = agreements(settings, runs)
    ratios = {kind: found / runs["cost"]["seconds"]["base"] for kind, found in runs["cost"]["seconds"].items()}
    return [
        Claim(
            number=2,
            text="On a chain, extra weights lower the agreement of seeds (Kendall's tau).",
            supported=all(statistics.fmean(agreed[kind]) < statistics.fmean(agreed["base"]) for kind in extra),
            numbers=", ".join(f"{kind} {spread(values, 3)}" for kind, values in agreed.items()) + " (pairs of seeds)",
            document="Kendall's tau 0.761 without extra weights, 0.730 bias, 0.700 and 0.703 split (table 2)",
        ),
        Claim(
            number=2,
            text="On a chain, both biases and split weights select better networks (improvement of the top 10).",
            supported=means["bias"] > means["base"] < max(means[kind] for kind in extra if kind != "bias"),
            numbers=", ".join(f"{kind} {spread(values, 2)}" for kind, values in gained.items()),
            document="both improve the top 10, less than in only conv (figure 5)",
        ),
        Claim(
            number=3,
            text="On a chain, extra weights cost nearly nothing: at most 5 % of the time of a step.",
            supported=max(ratios.values()) <= NEARLY_NOTHING,
            numbers="; ".join(
                f"{kind} {increase(runs['cost']['seconds'], kind)} time, {increase(runs['cost']['bytes'], kind)} memory"
                for kind in extra
            ),
            document="bias and split +1 % time; 96 % of the memory of a GPU (table 1)",
        ),
        _truth(settings, runs),
        _statistics(settings, runs),
    ]


def agreements(settings: Settings, runs: Mapping[str, Any]) -> dict[str, list[float]]:
    """Kendall's tau of the scores of every two seeds, by kind of weights; 0 where all scores of a seed are alike."""
    found = {}
    for kind in settings["weights"]:
        agreed = agreement([runs[f"{kind}, seed {seed}"] for seed in range(settings["seeds"])])
        found[kind] = [value or 0.0 for value in agreed.kendall_of_pairs] if agreed else []
    return found


def _truth(settings: Settings, runs: Mapping[str, Any]) -> Claim:
    train, test = (alone(settings, runs, side) for side in ("train", "test"))
    between = _kendall(train.mean(0), test.mean(0))
    none = None if between.low is None or between.high is None else between.low <= 0 <= between.high
    return Claim(
        text="The training accuracy of networks trained alone says nothing on their test accuracy.",
        supported=none,
        numbers=f"Kendall's tau {_in_words(between)}; of the test accuracies of one training with the mean of "
        f"{len(test)}: {_in_words(_kendall(test[0], test.mean(0)))}",
        document="no correlation (figure 6); 0.72 of one training with the mean of two (appendix A)",
    )


def _kendall(x: NDArray[np.float64], y: NDArray[np.float64]) -> Interval:
    """Kendall's tau with an interval over networks."""
    return bootstrap(lambda drawn: correlation("kendall", x[drawn], y[drawn]), len(x), resamples=RESAMPLES)


def _in_words(found: Interval) -> str:
    return "unknown" if found.low is None else f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def _statistics(settings: Settings, runs: Mapping[str, Any]) -> Claim:
    names = ["base", *settings["baselines"]]
    kept, reset = (
        [tau for ranked in supernets(settings, runs, names, scores).values() for tau in correlations(ranked)]
        for scores in ("val_acc", "reset")
    )
    worse = [after < before for before, after in zip(kept, reset, strict=True)]
    return Claim(
        text="To reset the statistics of batch normalisation before they adapt makes rankings worse.",
        supported=sum(worse) > len(worse) / 2 and statistics.fmean(reset) < statistics.fmean(kept),
        numbers=f"Kendall's tau with the truth {spread(kept, 2)} without and {spread(reset, 2)} with it; worse in "
        f"{sum(worse)} of {len(worse)} supernets",
        document="detrimental in nearly all tested cases (appendix B)",
    )
