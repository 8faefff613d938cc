"""Whether supernets that differ in their seed alone put architectures into the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from polyarch.errors import InvalidInput
from polyarch.ranking.bootstrap import Interval, Rows, bootstrap
from polyarch.ranking.correlations import Values, correlation


@dataclass(frozen=True)
class SelfConsistency:
    """Rank correlations of the predictions of every two seeds, and their means with bootstrap intervals.

    ``spearman`` and ``kendall`` are means over ``pairs``, all ``None`` where the predictions of a seed do not vary.
    """

    n: int
    pairs: tuple[tuple[int, int], ...]
    spearman_of_pairs: tuple[float | None, ...]
    kendall_of_pairs: tuple[float | None, ...]
    spearman: Interval
    kendall: Interval


def self_consistency(
    predictions: Sequence[Sequence[float]],
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> SelfConsistency:
    """The agreement of every two seeds about the order of n architectures.

    Args:
        predictions: (seeds, n), every row in the same order of architectures.
        confidence: of the percentile intervals over ``resamples`` bootstrap samples of architectures.
    """
    rows = as_rows(predictions)

    def mean(measure: str) -> Interval:
        return mean_agreement(measure, rows, confidence=confidence, resamples=resamples, seed=seed)

    return SelfConsistency(
        n=rows.shape[1],
        pairs=tuple(combinations(range(len(rows)), 2)),
        spearman_of_pairs=_of_pairs("spearman", rows),
        kendall_of_pairs=_of_pairs("kendall", rows),
        spearman=mean("spearman"),
        kendall=mean("kendall"),
    )


def as_rows(predictions: Sequence[Sequence[float]]) -> Values:
    """Several rows of finite predictions as a (rows, n) array, 2 or more rows and n 3 or more."""
    lengths = {len(row) for row in predictions}
    if len(predictions) < 2 or len(lengths) != 1 or min(lengths) < 3:
        raise InvalidInput(
            "Expected two or more rows of predictions for the same 3 or more architectures. "
            f"Got {len(predictions)} of lengths {sorted(lengths)}."
        )
    rows = np.asarray(predictions, np.float64)
    if not np.isfinite(rows).all():
        raise InvalidInput("Expected finite predictions. Got NaN or infinity.")
    return rows


def mean_agreement(measure: str, rows: Values, *, confidence: float, resamples: int, seed: int) -> Interval:
    """The mean correlation of every two of the (rows, n) predictions, with a bootstrap interval over architectures."""

    def estimate(drawn: Rows) -> float | None:
        found = _of_pairs(measure, rows[:, drawn])
        known = [value for value in found if value is not None]
        return float(np.mean(known)) if len(known) == len(found) else None

    return bootstrap(estimate, rows.shape[1], confidence=confidence, resamples=resamples, seed=seed)


def _of_pairs(measure: str, rows: Values) -> tuple[float | None, ...]:
    return tuple(correlation(measure, first, second) for first, second in combinations(rows, 2))
