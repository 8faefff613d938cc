"""Percentile bootstrap intervals over architectures, and over seeds where there are several.

Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 13. Architectures and seeds are two crossed
factors and are resampled independently: Owen (2007), "The Pigeonhole Bootstrap", Annals of
Applied Statistics 1(2).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from polyarch.errors import InvalidInput
from polyarch.randomness import derive_seed

Positions = NDArray[np.int64]
Values = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class Interval:
    """An estimate with a percentile bootstrap interval; ``None`` where the estimate is undefined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Resamples:
    """Bootstrap samples of n architectures and, where there are several, of seeds.

    Equal fields draw equal samples, so that several estimates can be compared.

    Args:
        n: the number of architectures.
        seeds: the number of seeds.
        confidence: the share of the resampled estimates between ``low`` and ``high`` of an interval.
        resamples: how many are drawn.
    """

    n: int
    seeds: int = 1
    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InvalidInput(f"Expected a confidence in 0..1. Got {self.confidence}.")

    def draws(self, estimate: Callable[[Positions, Positions], T]) -> list[T]:
        """The estimate of every sample.

        Args:
            estimate: maps (seeds,) positions of seeds and (n,) positions of architectures, both with repetitions.
        """
        generator = np.random.default_rng(derive_seed(self.seed, "bootstrap"))
        rows = generator.integers(self.n, size=(self.resamples, self.n))
        drawn_seeds = generator.integers(self.seeds, size=(self.resamples, self.seeds))
        return list(map(estimate, drawn_seeds, rows))

    def whole(self, estimate: Callable[[Positions, Positions], T]) -> T:
        """The estimate of all seeds and architectures, each once."""
        return estimate(np.arange(self.seeds), np.arange(self.n))

    def interval(self, value: float | None, draws: Sequence[float | None]) -> Interval:
        """The percentile interval around a value; samples in which the estimate is undefined do not count."""
        known = [draw for draw in draws if draw is not None]
        if value is None or not known:
            return Interval(value, None, None)
        low, high = np.quantile(known, [(1 - self.confidence) / 2, (1 + self.confidence) / 2])
        return Interval(value, float(low), float(high))


def widened(by_seed: Values, drawn: Positions) -> Values:
    """Draws of the mean over new seeds, from draws of each of n seeds: (n, D), (D, n) -> (D,).

    The mean of n resampled seeds has (n - 1) / n of the variance of the mean of n new ones: half of it for two seeds.
    With m the mean over all seeds and m* that over the resampled ones, a draw is therefore m + sqrt(n / (n - 1))
    (m* - m). One seed says nothing about others: its draws stay as they are.
    """
    seeds = len(by_seed)
    whole: Values = by_seed.mean(0)
    if seeds == 1:
        return whole
    resampled = np.take_along_axis(by_seed, drawn.T, axis=0).mean(0)
    wider: Values = whole + np.sqrt(seeds / (seeds - 1)) * (resampled - whole)
    return wider


def bootstrap(
    estimate: Callable[[Positions], float | None],
    n: int,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """The percentile bootstrap interval of an estimate over n architectures.

    Args:
        estimate: maps (n,) positions of architectures, with repetitions, to a value; None where it is undefined.
        confidence: the share of the resampled estimates between ``low`` and ``high``.
    """
    samples = Resamples(n, confidence=confidence, resamples=resamples, seed=seed)

    def of_architectures(_: Positions, rows: Positions) -> float | None:
        return estimate(rows)

    return samples.interval(samples.whole(of_architectures), samples.draws(of_architectures))
