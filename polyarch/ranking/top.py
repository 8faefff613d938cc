"""How sure the first place is: where the architecture with the highest prediction truly stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyarch.ranking.bootstrap import Interval, Rows, bootstrap
from polyarch.ranking.correlations import Values, paired


@dataclass(frozen=True)
class TopOne:
    """The architecture with the highest prediction, judged by the truth.

    Attributes:
        position: which of the n it is.
        rank_share: the share of the others that are truly better, equal ones by half: 0 is the best of all, 0.5 what
            chance gives, 1 the worst.
        regret: how much lower its truth is than the best.
    """

    n: int
    position: int
    rank_share: Interval
    regret: Interval


def top_one(
    predicted: Sequence[float],
    truth: Sequence[float],
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> TopOne:
    """Where the predicted best stands, with intervals over bootstrap samples of architectures.

    In every resample the choice is made anew among those drawn. The intervals tell how much hangs on which
    architectures were there to choose from; noise of the scores themselves is not in them.

    Args:
        predicted, truth: (n,), more is better.
    """
    x, y = paired(predicted, truth, least=3)

    def share(rows: Rows) -> float | None:
        return rank_share(y, rows, chosen(x, rows))

    def lost(rows: Rows) -> float:
        return float(y[rows].max() - y[chosen(x, rows)])

    return TopOne(
        n=len(x),
        position=int(x.argmax()),
        rank_share=bootstrap(share, len(x), confidence=confidence, resamples=resamples, seed=seed),
        regret=bootstrap(lost, len(x), confidence=confidence, resamples=resamples, seed=seed),
    )


def chosen(predicted: Values, rows: Rows) -> int:
    """The position of the highest prediction among the drawn rows; the first drawn wins ties."""
    return int(rows[predicted[rows].argmax()])


def rank_share(truth: Values, rows: Rows, position: int) -> float | None:
    """The share of the other drawn architectures with a higher truth, equal ones by half; None without others."""
    others = truth[rows[rows != position]]
    if not len(others):
        return None
    own = truth[position]
    return float(np.mean(others > own) + np.mean(others == own) / 2)
