"""Scores with 95 % intervals over test examples and seeds, and the differences between them.

Percentile bootstrap: Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 13.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from polyarch.randomness import derive_seed
from polyarch.ranking.bootstrap import Values, widened
from polyarch.results.predictors import ResampledRecord

CONFIDENCE = 0.95
"""Of intervals."""


class Judged(Protocol):
    """What has been measured on test data, such as a network, a predictor or a size."""

    score: float
    loss: float
    resampled: ResampledRecord | None


@dataclass(frozen=True, eq=False)
class Estimate:
    """A value that was measured on test examples, and what it is on resampled ones.

    Args:
        value: the mean over all runs.
        draws: of the value, (R,); None where they are not known.
        examples: the number of test examples, where the value is a share of them or a difference of such shares.
        is_difference: whether it is a difference, which may be below 0.
    """

    value: float
    draws: Values | None = None
    examples: int | None = None
    is_difference: bool = False

    @classmethod
    def of(
        cls,
        runs: Sequence[Judged],
        name: Literal["score", "loss"] = "score",
        *,
        examples: int | None = None,
        stream: str = "",
    ) -> "Estimate":
        """The mean over runs, with test examples and, where there are several, runs resampled independently.

        Args:
            stream: of the resampled runs; equal ones take runs at equal places, so that differences are paired.
        """
        value = float(np.mean([getattr(one, name) for one in runs]))
        if any(one.resampled is None for one in runs):
            return cls(value, None, examples)
        by_run = np.array([getattr(one.resampled, name) for one in runs], np.float64)  # (runs, R); None is NaN
        generator = np.random.default_rng(derive_seed(0, "resampled runs", stream))
        drawn = generator.integers(len(runs), size=by_run.T.shape)
        return cls(value, widened(by_run, drawn), examples)

    def minus(self, other: "Estimate") -> "Estimate":
        """The difference, paired by test examples."""
        is_known = self.draws is not None and other.draws is not None and len(self.draws) == len(other.draws)
        draws = self.draws - other.draws if is_known else None  # type: ignore[operator]
        examples = self.examples if self.examples == other.examples else None
        return Estimate(self.value - other.value, draws, examples, is_difference=True)

    @property
    def negated(self) -> "Estimate":
        """The same with the opposite sign."""
        return Estimate(-self.value, None if self.draws is None else -self.draws)

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % of the draws lie in it.

        Where no draw differs from another, as for a network without a single error on n test examples, the share of
        errors may still be up to 1 - 0.025^(1/n).
        """
        if self.draws is None:
            return None
        known = self.draws[~np.isnan(self.draws)]
        if not len(known):
            return None
        if self.examples is not None and known.min() == known.max():
            unseen = 1 - ((1 - CONFIDENCE) / 2) ** (1 / self.examples)
            low, high = self.value - unseen, self.value + unseen
        else:
            low, high = map(float, np.quantile(known, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
        is_share = self.examples is not None and not self.is_difference
        return (max(low, 0.0), min(high, 1.0)) if is_share else (low, high)

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]
