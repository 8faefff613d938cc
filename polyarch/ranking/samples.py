"""Rank statistics on bootstrap samples that several estimators share, so that their differences are paired.

Architectures and seeds are resampled independently (`Resamples`). Every statistic is an array of draws whose first
entry is that of the whole sample; sums and differences of such arrays are draws of sums and differences.
Means over resampled seeds are spread as those over new ones are (`widened`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from polyarch.errors import InvalidInput
from polyarch.ranking.bootstrap import Interval, Positions, Resamples, Values, widened
from polyarch.ranking.correlations import paired_rows

LARGEST_BLOCK = 1_000_000
"""Values that are ranked at once: more samples than fit are ranked in several blocks."""


@dataclass(frozen=True, eq=False)
class RankSamples:
    """Bootstrap samples of n architectures with known truth; equal settings draw equal samples.

    Example:
        >>> samples = RankSamples([1.0, 2.0, 3.0, 4.0])
        >>> float((samples.spearman([1.0, 2.0, 3.0, 4.0]) - samples.spearman([4.0, 3.0, 2.0, 1.0]))[0])
        2.0

    Args:
        truth: (n,) true values.
        confidence: the share of the draws between ``low`` and ``high`` of an interval.
        resamples: how many samples are drawn.
    """

    truth: Sequence[float]
    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0

    def spearman(self, scores: Sequence[float] | Sequence[Sequence[float]]) -> Values:
        """Spearman's correlation with the truth, mean over seeds; NaN where a side is constant in one of the seeds.

        Args:
            scores: (n,) or (seeds, n).

        Returns:
            (1 + resamples,)
        """
        ranks = self._truth_ranks

        def correlations(part: slice, drawn: Values) -> Values:
            x, y = _standardised(drawn), ranks[part]
            return np.where((x * x).sum(1) * (y * y).sum(1) > 0, (x * y).sum(1), np.nan)

        return self._of_seeds(scores, correlations)

    def top(self, scores: Sequence[float] | Sequence[Sequence[float]], k: int) -> Values:
        """The mean truth of the k architectures with the highest scores, mean over seeds; the first ones win ties.

        Returns:
            (1 + resamples,)
        """
        if not 1 <= k <= len(self.truth):
            raise InvalidInput(f"Expected k in 1..{len(self.truth)}. Got {k}.")
        truth = np.asarray(self.truth, np.float64)[self._rows]

        def tops(part: slice, drawn: Values) -> Values:
            first = np.argsort(-drawn, axis=1, kind="stable")[:, :k]
            means: Values = np.take_along_axis(truth[part], first, axis=1).mean(1)
            return means

        return self._of_seeds(scores, tops)

    def interval(self, draws: Values) -> Interval:
        """The value of the whole sample with its percentile interval; draws that are NaN do not count."""
        value, *drawn = (None if np.isnan(draw) else float(draw) for draw in draws)
        return Resamples(len(self.truth), confidence=self.confidence).interval(value, drawn)

    @cached_property
    def _rows(self) -> Positions:
        """(1 + resamples, n) positions of architectures."""
        return self._positions(1)[1]

    @cached_property
    def _truth_ranks(self) -> Values:
        return _standardised(np.asarray(self.truth, np.float64)[self._rows])

    def _positions(self, seeds: int) -> tuple[Positions, Positions]:
        """Positions of seeds and of architectures, all of them first, then those that are drawn."""
        samples = Resamples(len(self.truth), seeds, self.confidence, self.resamples, self.seed)
        drawn = [samples.whole(_both), *samples.draws(_both)]
        return np.stack([pair[0] for pair in drawn]), np.stack([pair[1] for pair in drawn])

    def _of_seeds(
        self, scores: Sequence[float] | Sequence[Sequence[float]], statistic: Callable[[slice, Values], Values]
    ) -> Values:
        """The mean over the seeds of every sample of a statistic of its (samples, n) scores, as far from that over all
        seeds as the mean of as many new ones would be."""
        x, _ = paired_rows(scores, self.truth, least=3)
        seeds, n = x.shape
        size = max(LARGEST_BLOCK // n, 1)
        parts = [slice(start, start + size) for start in range(0, 1 + self.resamples, size)]
        by_seed = np.stack([np.concatenate([statistic(part, row[self._rows[part]]) for part in parts]) for row in x])
        drawn, _ = self._positions(seeds)  # (1 + resamples, seeds)
        return widened(by_seed, drawn)


def _both(seeds: Positions, rows: Positions) -> tuple[Positions, Positions]:
    return seeds, rows


def _standardised(values: Values) -> Values:
    """Ranks in every row with mean 0 and length 1; 0 where all are equal."""
    from scipy.stats import rankdata  # takes a second to import

    ranks = rankdata(values, axis=1)
    ranks -= ranks.mean(1, keepdims=True)
    length = np.sqrt((ranks * ranks).sum(1, keepdims=True))
    found: Values = np.divide(ranks, length, out=np.zeros_like(ranks), where=length > 0)
    return found
