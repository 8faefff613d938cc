"""Percentile bootstrap intervals over architectures.

Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 13.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyarch.errors import InvalidInput
from polyarch.randomness import derive_seed

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Interval:
    """An estimate with a percentile bootstrap interval; ``None`` where the estimate is undefined."""

    value: float | None
    low: float | None
    high: float | None


def bootstrap(
    estimate: Callable[[Positions], float | None],
    n: int,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """The percentile bootstrap interval of an estimate over n architectures.

    Equal seed and n draw equal resamples, so that several estimates can be compared.

    Args:
        estimate: maps (n,) positions of architectures, with repetitions, to a value; None where it is undefined.
        confidence: the share of the resampled estimates between ``low`` and ``high``.
    """
    if not 0 < confidence < 1:
        raise InvalidInput(f"Expected a confidence in 0..1. Got {confidence}.")
    generator = np.random.default_rng(derive_seed(seed, "bootstrap"))
    rows = generator.integers(n, size=(resamples, n))
    value = estimate(np.arange(n))
    known = [draw for row in rows if (draw := estimate(row)) is not None]
    if value is None or not known:
        return Interval(value, None, None)
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(value, float(low), float(high))
