"""How well learning curves rank architectures, depending on how much of them has been seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from polyarch.errors import InvalidInput
from polyarch.ranking.bootstrap import Values
from polyarch.ranking.correlations import correlation, paired


def accumulated(losses: ArrayLike, *, window: int | None = 1, decay: float = 1.0) -> Values:
    """The sum over training losses after every step t: S_t = sum over s in (t - window, t] of decay^(t - s) loss_s.

    Where a step is an epoch, as in tables of curves, this is minus SoTL: of the last epoch unless said otherwise, as in
    the thesis (section 3.1), because that predicts better than the whole run (Ru et al., 2021, arXiv:2006.04492).

    Args:
        losses: (n, T), a curve per architecture.
        window: how many of the last steps count; None for the whole run so far.
        decay: below 1, in the order of an exponential average (SoTL-EMA, with the whole run).

    Returns:
        (n, T)
    """
    values = np.asarray(losses, np.float64)
    if values.ndim != 2 or not values.size:
        raise InvalidInput(f"Expected losses of shape (architectures, steps). Got {values.shape}.")
    if not np.isfinite(values).all():
        raise InvalidInput("Expected finite losses. Got NaN or infinity.")
    if not (0 < decay <= 1 and (window is None or window >= 1)):
        raise InvalidInput(f"Expected a decay above 0 and at most 1, a window of 1 or more. Got {decay=}, {window=}.")
    steps = np.arange(values.shape[1])
    age = steps[None, :] - steps[:, None]  # (s, t): how long ago step s is at step t
    seen = (age >= 0) & (age < (len(steps) if window is None else window))
    weights: Values = np.where(seen, decay ** np.maximum(age, 0), 0.0)
    return values @ weights


def correlation_along(
    losses: ArrayLike,
    truth: Sequence[float],
    *,
    steps: Sequence[int] | None = None,
    window: int | None = 1,
    decay: float = 1.0,
    measure: str = "spearman",
) -> list[float | None]:
    """The rank correlation of minus the accumulated loss with the truth after every chosen step.

    Args:
        losses: (n, T), a curve per architecture; for values of which more is better pass them with a minus.
        steps: numbers of steps, 1 to T; all by default.
        window, decay: see ``accumulated``.

    Returns:
        A value per step, None where the accumulated losses or the truth do not vary.
    """
    sums = accumulated(losses, window=window, decay=decay)
    _, truths = paired(sums[:, 0].tolist(), truth, least=3)
    chosen = range(1, sums.shape[1] + 1) if steps is None else steps
    if not all(1 <= step <= sums.shape[1] for step in chosen):
        raise InvalidInput(f"Expected steps in 1..{sums.shape[1]}. Got {list(chosen)}.")
    return [correlation(measure, -sums[:, step - 1], truths) for step in chosen]
