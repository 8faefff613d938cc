"""Measures that several documents share."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from torch import Tensor

from polyarch.predictive import calibration_noise


def spread(values: list[float], digits: int) -> str:
    """Mean and, with more than one value, standard deviation, for people."""
    std = f" +- {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{std}"


def scores(log_probs: Tensor, targets: Tensor) -> dict[str, float]:
    """Mean log p and mean p of the true class, accuracy, and the calibration error with its noise floor and interval.

    The plots of Antorán et al. (2020) mix the first two up.
    """
    true = log_probs.gather(1, targets[:, None]).squeeze(1)
    noise = calibration_noise(log_probs.exp(), targets)
    return {
        "mean_log_p": float(true.mean()),
        "mean_p": float(true.exp().mean()),
        "accuracy": float((log_probs.argmax(1) == targets).float().mean()),
        "calibration_error": noise.error,
        "calibration_floor": noise.floor,
        "calibration_low": noise.low,
        "calibration_high": noise.high,
    }


def with_noise(tests: Sequence[Mapping[str, float]]) -> str:
    """The calibration error, its noise floor and the mean ends of its interval; earlier results lack the last two."""
    error = spread([test["calibration_error"] for test in tests], 4)
    if any("calibration_floor" not in test for test in tests):
        return error
    floor, low, high = (
        statistics.fmean(test[f"calibration_{name}"] for test in tests) for name in ("floor", "low", "high")
    )
    return f"{error}; {floor:.4f}; {low:.4f} to {high:.4f}"


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's; 0 where one side is constant."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return 0.0
    from scipy.stats import spearmanr  # takes a second to import

    return float(spearmanr(first, second).statistic)
