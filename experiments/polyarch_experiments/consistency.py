"""Whether supernets that differ in their seed alone put architectures into the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from polyarch.ranking import Interval
from polyarch.ranking.correlations import as_rows, mean_agreement, pair_agreements


@dataclass(frozen=True)
class SelfConsistency:
    """Correlations of the predictions of every two seeds, and their means with bootstrap intervals.

    ``spearman``, ``kendall`` and ``pearson`` are means over ``pairs``, all ``None`` where the predictions of a seed do
    not vary.
    """

    n: int
    pairs: tuple[tuple[int, int], ...]
    spearman_of_pairs: tuple[float | None, ...]
    kendall_of_pairs: tuple[float | None, ...]
    pearson_of_pairs: tuple[float | None, ...]
    spearman: Interval
    kendall: Interval
    pearson: Interval


def self_consistency(
    predictions: Sequence[Sequence[float]], *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
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
        spearman_of_pairs=pair_agreements("spearman", rows),
        kendall_of_pairs=pair_agreements("kendall", rows),
        pearson_of_pairs=pair_agreements("pearson", rows),
        spearman=mean("spearman"),
        kendall=mean("kendall"),
        pearson=mean("pearson"),
    )
