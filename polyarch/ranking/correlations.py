"""Correlations of predictions with true values, and of several rows of predictions with each other."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from polyarch.errors import InvalidInput
from polyarch.ranking.bootstrap import Interval, Positions, Values, bootstrap


def correlation(measure: str, x: Values, y: Values) -> float | None:
    """The correlation "spearman", "kendall" (tau-b) or "pearson" of two (n,) arrays; None if one is constant."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    from scipy import stats  # takes a second to import; commands that rank nothing do not wait for it

    measures: dict[str, Any] = {"spearman": stats.spearmanr, "kendall": stats.kendalltau, "pearson": stats.pearsonr}
    value = float(measures[measure](x, y).statistic)
    return value if math.isfinite(value) else None


def paired(
    predicted: Sequence[float] | Values, truth: Sequence[float] | Values, least: int = 1
) -> tuple[Values, Values]:
    """Validates predictions and truth as (n,) arrays of finite numbers with n >= ``least``."""
    x, y = np.asarray(predicted, np.float64), np.asarray(truth, np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise InvalidInput(f"Expected one prediction per true value. Got {x.shape} and {y.shape}.")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InvalidInput("Expected finite predictions and true values. Got NaN or infinity.")
    if len(x) < least:
        raise InvalidInput(f"Expected {least} or more architectures. Got {len(x)}.")
    return x, y


def paired_rows(
    predicted: Sequence[float] | Sequence[Sequence[float]],
    truth: Sequence[float] | Sequence[Sequence[float]],
    least: int = 1,
) -> tuple[Values, Values]:
    """Validates predictions and truth, (n,) or (seeds, n) each, as (seeds, n) arrays of finite numbers."""
    x, y = np.atleast_2d(np.asarray(predicted, np.float64)), np.asarray(truth, np.float64)
    if y.shape not in (x.shape, x.shape[1:]) or x.ndim != 2:
        raise InvalidInput(f"Expected one prediction per true value. Got {np.shape(predicted)} and {y.shape}.")
    y = np.broadcast_to(y, x.shape)
    for row, true in zip(x, y, strict=True):
        paired(row, true, least)
    return x, y


def mean_correlation(measure: str, x: Values, y: Values) -> float | None:
    """The mean over rows of the correlation of two (seeds, n) arrays; None if a row is constant."""
    found = [correlation(measure, first, second) for first, second in zip(x, y, strict=True)]
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if len(known) == len(found) else None


def as_rows(predictions: Sequence[Sequence[float]]) -> Values:
    """Validates two or more rows of finite predictions for n >= 3 architectures: (rows, n)."""
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
    """The mean correlation over all pairs of (rows, n) predictions, with a bootstrap interval over architectures."""

    def estimate(drawn: Positions) -> float | None:
        found = pair_agreements(measure, rows[:, drawn])
        known = [value for value in found if value is not None]
        return float(np.mean(known)) if len(known) == len(found) else None

    return bootstrap(estimate, rows.shape[1], confidence=confidence, resamples=resamples, seed=seed)


def pair_agreements(measure: str, rows: Values) -> tuple[float | None, ...]:
    """The correlation of every pair of (rows, n) predictions; None if one of the two is constant."""
    return tuple(correlation(measure, first, second) for first, second in combinations(rows, 2))
