"""How much better the remaining architectures get when those predicted to be bad are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyarch.errors import InvalidInput
from polyarch.ranking.bootstrap import Values
from polyarch.ranking.correlations import correlation, paired


@dataclass(frozen=True, eq=False)
class ImprovementCurve:
    """What is left when architectures are dropped one by one; all arrays are (n - least + 1,), from all n to the last.

    ``mean_truth`` and ``normalised`` are of those left when the worst by prediction are dropped; ``spearman`` and
    ``kendall`` compare predictions and truth of those left when the truly worst are dropped.

    Attributes:
        kept: how many are left.
        mean_truth: their mean truth.
        normalised: the same on a scale on which 0 is the mean of all n and 1 the best of all n; 0 where the truth does
            not vary.
        spearman, kendall: NaN where predictions or truth do not vary.
    """

    kept: NDArray[np.int64]
    mean_truth: Values
    normalised: Values
    spearman: Values
    kendall: Values


def improvement(predicted: Sequence[float], truth: Sequence[float], least: int = 10) -> ImprovementCurve:
    """Drops architectures one by one down to the last few: the worst by prediction, and beside it the truly worst.

    With the mean truth m_k of the k highest predictions, m_n of all and the best truth b, the normalised improvement is
    (m_k - m_n) / (b - m_n). Of equal architectures earlier ones stay longer. Takes time with the square of n, because
    every rank correlation looks at all that are left.

    Args:
        least: how many are left at the end.
    """
    x, y = paired(predicted, truth)
    if not 1 <= least <= len(x):
        raise InvalidInput(f"Expected to keep 1..{len(x)} of {len(x)} architectures. Got {least=}.")
    kept = np.arange(len(x), least - 1, -1)
    sums = np.cumsum(y[np.argsort(-x, kind="stable")])  # sums[k - 1] is of the k highest predictions
    mean_truth = sums[kept - 1] / kept
    gain = y.max() - mean_truth[0]
    varies = np.ptp(y) > 0
    best_first = np.argsort(-y, kind="stable")
    left = [(x[rows], y[rows]) for rows in (best_first[:k] for k in kept)]
    return ImprovementCurve(
        kept=kept,
        mean_truth=mean_truth,
        normalised=(mean_truth - mean_truth[0]) / gain if varies else np.zeros(len(kept)),
        spearman=np.array([correlation("spearman", *pair) for pair in left], np.float64),
        kendall=np.array([correlation("kendall", *pair) for pair in left], np.float64),
    )
