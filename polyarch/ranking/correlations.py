"""Rank and linear correlations of predictions with true values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.errors import InvalidInput

Values = NDArray[np.float64]


def correlation(measure: str, x: Values, y: Values) -> float | None:
    """Spearman's, Kendall's (tau-b) or Pearson's correlation of two (n,) arrays; None if one of them is constant.

    Args:
        measure: ``spearman``, ``kendall`` or ``pearson``.
    """
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    from scipy import stats  # takes a second to import; commands that rank nothing do not wait for it

    measures: dict[str, Any] = {"spearman": stats.spearmanr, "kendall": stats.kendalltau, "pearson": stats.pearsonr}
    value = float(measures[measure](x, y).statistic)
    return value if math.isfinite(value) else None


def paired(predicted: Sequence[float], truth: Sequence[float], least: int = 1) -> tuple[Values, Values]:
    """Validates predictions and truth as (n,) arrays of finite numbers with n >= ``least``."""
    x, y = np.asarray(predicted, np.float64), np.asarray(truth, np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise InvalidInput(f"Expected one prediction per true value. Got {x.shape} and {y.shape}.")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InvalidInput("Expected finite predictions and true values. Got NaN or infinity.")
    if len(x) < least:
        raise InvalidInput(f"Expected {least} or more architectures. Got {len(x)}.")
    return x, y
