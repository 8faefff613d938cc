"""Claims on inter-choice weights of a chain: selection, agreement of seeds, costs, and the truth itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.ranking import Interval
from polyarch.ranking.bootstrap import bootstrap
from polyarch.ranking.correlations import correlation
from polyarch_experiments.experiment import Settings
from polyarch_experiments.interchoice.chain_networks import alone, supernets
from polyarch_experiments.interchoice.interchoice_claims import (
    AGREEMENT,
    MINUS_BASE,
    RESAMPLES,
    agreement_change,
    gain_of,
)
from polyarch_experiments.interchoice.training_costs import extra_seconds, increases
from polyarch_experiments.interchoice.weighted_supernets import correlations
from polyarch_experiments.results import Claim
from polyarch_experiments.verdict import claim, finding, interval_in_words, paired

NEARLY_NOTHING = 5.0
"""More percent of the time of a step count as a cost."""
NONE = 0.2
"""A smaller correlation, to either side, counts as none."""


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Table 1 and 2, and figures 5 to 7."""
    return [*_weights(settings, runs), _truth(settings, runs), _statistics(settings, runs)]


def _weights(settings: Settings, runs: Mapping[str, Any]) -> Iterator[Claim]:
    extra = [kind for kind in settings["weights"] if kind != "base"]
    scored = {kind: [runs[f"{kind}, seed {seed}"] for seed in range(settings["seeds"])] for kind in settings["weights"]}
    yield claim(
        "On a chain, extra weights lower the agreement of seeds (Kendall's tau).",
        [finding(kind, agreement_change(scored[kind], scored["base"]), below=0) for kind in extra],
        AGREEMENT,
        number=2,
        document="Kendall's tau 0.761 without extra weights, 0.730 bias, 0.700 and 0.703 split (table 2)",
    )
    found = supernets(settings, runs, list(settings["weights"]))
    yield claim(
        "On a chain, both biases and split weights select better networks.",
        [finding(kind, gain_of(found[kind], found["base"]), above=0) for kind in extra],
        MINUS_BASE,
        number=2,
        document="both improve the top 10, less than in only conv (figure 5)",
    )
    yield claim(
        "On a chain, extra weights cost nearly nothing.",
        [finding(f"{kind}, per cent", extra_seconds(runs["cost"], kind), below=NEARLY_NOTHING) for kind in extra],
        f"time of a step, the interval is over steps; memory: {increases(runs['cost']['bytes'])}",
        number=3,
        document="bias and split +1 % time; 96 % of the memory of a GPU (table 1)",
        ours=f"less than {NEARLY_NOTHING:g} % of a step is nearly nothing",
    )


def _truth(settings: Settings, runs: Mapping[str, Any]) -> Claim:
    train, test = (alone(settings, runs, side) for side in ("train", "test"))
    single = _kendall(test[0], test.mean(0))
    return claim(
        "The training accuracy of networks trained alone says nothing on their test accuracy.",
        [finding("Kendall's tau", _kendall(train.mean(0), test.mean(0)), above=-NONE, below=NONE)],
        f"of the test accuracies of one training with the mean of {len(test)}: {interval_in_words(single, 2)}",
        document="no correlation (figure 6); 0.72 of one training with the mean of two (appendix A)",
        ours=f"a correlation of less than {NONE:g} counts as none",
    )


def _kendall(x: NDArray[np.float64], y: NDArray[np.float64]) -> Interval:
    """Kendall's tau with an interval over networks."""
    return bootstrap(lambda drawn: correlation("kendall", x[drawn], y[drawn]), len(x), resamples=RESAMPLES)


def _statistics(settings: Settings, runs: Mapping[str, Any]) -> Claim:
    names = ["base", *settings["baselines"]]
    kept, reset = (
        [tau for ranked in supernets(settings, runs, names, scores).values() for tau in correlations(ranked)]
        for scores in ("val_acc", "reset")
    )
    worse = sum(after < before for before, after in zip(kept, reset, strict=True))
    return claim(
        "To reset the statistics of batch normalisation before they adapt makes rankings worse.",
        [finding("Kendall's tau with the truth, reset minus adapted", paired(reset, kept), below=0)],
        f"worse in {worse} of {len(kept)} supernets, over which the interval is",
        document="detrimental in nearly all tested cases (appendix B)",
    )
