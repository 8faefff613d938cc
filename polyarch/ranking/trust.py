"""How far a ranking may be trusted where nobody knows the truth: do other scores of the same architectures agree?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from polyarch.errors import InvalidInput
from polyarch.ranking.bootstrap import Interval, Rows, bootstrap
from polyarch.ranking.consistency import as_rows, mean_agreement
from polyarch.ranking.correlations import Values
from polyarch.ranking.top import chosen, rank_share


@dataclass(frozen=True)
class Trust:
    """Agreement of two estimators and of supernets with different seeds, and where the first place stands.

    Attributes:
        n: how many architectures were scored.
        estimators: the names of the two that are compared.
        estimator_agreement: Spearman's correlation of the two.
        seed_agreement: the mean of Spearman's correlation over every two supernets; None with one supernet.
        top: the position of the architecture that the first estimator puts first.
        top_rank_interval: the share of other architectures that the other estimators put before it, averaged over
            those estimators: 0 is the first place, 0.5 what chance gives.
    """

    n: int
    estimators: tuple[str, str]
    estimator_agreement: Interval
    seed_agreement: Interval | None
    top: int
    top_rank_interval: Interval

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files."""
        return asdict(self)


def trust(
    scores_by_name: Mapping[str, Sequence[float]],
    seed_scores: Sequence[Sequence[float]] | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 500,
    seed: int = 0,
) -> Trust:
    """Compares scores of the same architectures; more is better in all of them.

    The first two names are compared; the choice of the first is judged by all others. Intervals are over bootstrap
    samples of architectures.

    Args:
        scores_by_name: for each of two or more estimators (n,) scores, in the same order of architectures.
        seed_scores: (seeds, m) scores by one estimator with the weights of supernets that differ in their seed.
    """
    if len(scores_by_name) < 2:
        raise InvalidInput(f"Expected the scores of two or more estimators. Got {list(scores_by_name)}.")
    rows = as_rows(list(scores_by_name.values()))
    first, second, *_ = scores_by_name

    def agreement(compared: Values) -> Interval:
        return mean_agreement("spearman", compared, confidence=confidence, resamples=resamples, seed=seed)

    def standing(drawn: Rows) -> float | None:
        position = chosen(rows[0], drawn)
        shares = [rank_share(other, drawn, position) for other in rows[1:]]
        known = [share for share in shares if share is not None]
        return float(np.mean(known)) if known else None

    n = rows.shape[1]
    return Trust(
        n=n,
        estimators=(first, second),
        estimator_agreement=agreement(rows[:2]),
        seed_agreement=None if seed_scores is None else agreement(as_rows(seed_scores)),
        top=int(rows[0].argmax()),
        top_rank_interval=bootstrap(standing, n, confidence=confidence, resamples=resamples, seed=seed),
    )
