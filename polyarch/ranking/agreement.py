"""How far several rows of predictions agree about the order of the same architectures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from polyarch.errors import InvalidInput
from polyarch.ranking.bootstrap import Interval, Positions, bootstrap
from polyarch.ranking.correlations import Values, correlation


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
