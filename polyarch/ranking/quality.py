"""Rank correlations with bootstrap intervals, the truth of the chosen few, and regret."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.errors import InvalidInput
from polyarch.randomness import derive_seed

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate with a percentile bootstrap interval; all ``None`` where one side does not vary."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class RankQuality:
    """Agreement of predictions with the truth over n architectures.

    ``sparse_kendall`` is Kendall's tau after the truth is rounded, so that differences too small to matter are
    ties.
    """

    n: int
    spearman: Interval
    kendall: Interval
    sparse_kendall: Interval
    pearson: Interval

    def to_dict(self) -> dict[str, object]:
        """Plain values, for files."""
        return asdict(self)


def rank_quality(
    predicted: Sequence[float],
    truth: Sequence[float],
    *,
    resolution: float = 0.1,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> RankQuality:
    """All correlations of predictions with the truth.

    Args:
        resolution: the truth is rounded to multiples of this for sparse Kendall; 0.1 suits accuracies in percent.
        confidence: of the percentile intervals over ``resamples`` bootstrap samples of architectures.
    """
    x, y = _pair(predicted, truth)
    if len(x) < 3:
        raise InvalidInput(f"Expected 3 or more architectures to correlate. Got {len(x)}.")
    if not (resolution > 0 and 0 < confidence < 1):
        raise InvalidInput(f"Expected a resolution above 0, a confidence in 0..1. Got {resolution=}, {confidence=}.")
    rounded = np.round(y / resolution)
    generator = np.random.default_rng(derive_seed(seed, "bootstrap"))
    rows = generator.integers(len(x), size=(resamples, len(x)))

    def interval(measure: str, truth: Values) -> Interval:
        value = _correlation(measure, x, truth)
        draws = [_correlation(measure, x[row], truth[row]) for row in rows]
        known = [draw for draw in draws if draw is not None]
        if value is None or not known:
            return Interval(value, None, None)
        low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
        return Interval(value, float(low), float(high))

    return RankQuality(
        n=len(x),
        spearman=interval("spearman", y),
        kendall=interval("kendall", y),
        sparse_kendall=interval("kendall", rounded),
        pearson=interval("pearson", y),
    )


def top_k(predicted: Sequence[float], truth: Sequence[float], k: int = 10) -> float:
    """The mean truth of the k architectures with the highest predictions; earlier ones win ties."""
    x, y = _pair(predicted, truth)
    if not 1 <= k <= len(x):
        raise InvalidInput(f"Expected k in 1..{len(x)}. Got {k}.")
    return float(y[np.argsort(-x, kind="stable")[:k]].mean())


def regret(predicted: Sequence[float], truth: Sequence[float]) -> float:
    """How much truth is lost by taking the architecture with the highest prediction."""
    chosen = top_k(predicted, truth, 1)
    return float(np.max(truth)) - chosen


def _correlation(measure: str, x: Values, y: Values) -> float | None:
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    from scipy import stats  # takes a second to import, which commands that rank nothing need not wait for

    measures: dict[str, Any] = {"spearman": stats.spearmanr, "kendall": stats.kendalltau, "pearson": stats.pearsonr}
    value = float(measures[measure](x, y).statistic)
    return value if math.isfinite(value) else None


def _pair(predicted: Sequence[float], truth: Sequence[float]) -> tuple[Values, Values]:
    x, y = np.asarray(predicted, np.float64), np.asarray(truth, np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise InvalidInput(f"Expected one prediction per true value. Got {x.shape} and {y.shape}.")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InvalidInput("Expected finite predictions and true values. Got NaN or infinity.")
    return x, y
