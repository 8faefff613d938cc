"""How well predictions rank architectures: correlations with bootstrap intervals, and the truth of the top k.

Sparse Kendall's tau: Yu, Ranftl and Salzmann (2020), "How to Train Your Super-Net: An Analysis of Training Heuristics
in Weight-Sharing NAS", arXiv:2003.04276.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from polyarch.errors import InvalidInput
from polyarch.ranking.bootstrap import Interval, Positions, Resamples, Values
from polyarch.ranking.correlations import mean_correlation, paired, paired_rows

AccuracyUnit = Literal["percent", "fraction"]
"""Accuracies of 0..100 or of 0..1."""

POINTS: dict[AccuracyUnit, float] = {"percent": 1.0, "fraction": 100.0}
"""Points of accuracy, percent, in one of each unit."""


@dataclass(frozen=True)
class RankQuality:
    """Agreement of predictions with the truth.

    For sparse Kendall, accuracies that round to the same number of points are ties; of a truth in other units than
    accuracy it is undefined.
    """

    n: int
    spearman: Interval
    kendall: Interval
    sparse_kendall: Interval
    pearson: Interval

    def to_dict(self) -> dict[str, object]:
        """Plain values that JSON can hold."""
        return asdict(self)


def rank_quality(
    predicted: Sequence[float] | Sequence[Sequence[float]],
    truth: Sequence[float] | Sequence[Sequence[float]],
    *,
    unit: AccuracyUnit | None = "percent",
    resolution: float = 0.1,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> RankQuality:
    """Correlates predictions with the truth.

    With several seeds it is the mean of their correlations, and the intervals are over seeds and architectures.

    Args:
        predicted: (n,) predictions, or (seeds, n) of several seeds.
        truth: (n,) true values, or (seeds, n) to compare every seed with others.
        unit: of the true accuracies; None if the truth is something else.
        resolution: sparse Kendall rounds accuracies to multiples of so many points, whatever their unit.
        confidence: of the percentile intervals over ``resamples`` bootstrap samples of architectures.
    """
    x, y = paired_rows(predicted, truth, least=3)
    if not resolution > 0:
        raise InvalidInput(f"Expected a resolution above 0. Got {resolution}.")
    seeds, n = x.shape
    samples = Resamples(n, seeds, confidence=confidence, resamples=resamples, seed=seed)

    def interval(measure: str, truth: Values) -> Interval:
        def estimate(drawn: Positions, rows: Positions) -> float | None:
            chosen = np.ix_(drawn, rows)
            return mean_correlation(measure, x[chosen], truth[chosen])

        return samples.interval(samples.whole(estimate), samples.draws(estimate))

    return RankQuality(
        n=n,
        spearman=interval("spearman", y),
        kendall=interval("kendall", y),
        sparse_kendall=Interval(None, None, None)
        if unit is None
        else interval("kendall", _rounded(y * POINTS[unit] / resolution)),
        pearson=interval("pearson", y),
    )


def _rounded(values: Values) -> Values:
    """Whole numbers; the error of 100 * 0.9345 must not decide which way half of a step is rounded."""
    return np.round(np.round(values, 6))


def top_k(predicted: Sequence[float], truth: Sequence[float], k: int = 10) -> float:
    """The mean truth of the k architectures with the highest predictions; the first ones win ties."""
    x, y = paired(predicted, truth)
    if not 1 <= k <= len(x):
        raise InvalidInput(f"Expected k in 1..{len(x)}. Got {k}.")
    return float(y[np.argsort(-x, kind="stable")[:k]].mean())
