"""How far to trust a ranking without a ground truth: do other scores of the same architectures agree?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from polyarch.errors import InvalidInput
from polyarch.ranking.bootstrap import Interval, Positions, Values, bootstrap
from polyarch.ranking.correlations import as_rows, mean_agreement


@dataclass(frozen=True)
class Trust:
    """Agreement of two estimators and of supernets with different seeds, and the standing of the first place.

    Attributes:
        n: the number of scored architectures.
        estimators: the names of the two compared estimators.
        estimator_agreement: Spearman's correlation of the two.
        seed_agreement: the mean of Spearman's correlation over all pairs of supernets; None with one supernet.
        top: the position of the architecture that the first estimator ranks first.
        top_rank_interval: the share of other architectures that the other estimators rank above it, averaged over
            those estimators: 0 is first place, 0.5 is chance.
    """

    n: int
    estimators: tuple[str, str]
    estimator_agreement: Interval
    seed_agreement: Interval | None
    top: int
    top_rank_interval: Interval

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)


def trust(
    scores_by_name: Mapping[str, Sequence[float]],
    seed_scores: Sequence[Sequence[float]] | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 500,
    seed: int = 0,
) -> Trust:
    """Compares scores of the same architectures; higher is better.

    The first two estimators are correlated, and all others judge the favourite of the first. Intervals are over
    bootstrap samples of architectures.

    Args:
        scores_by_name: two or more estimators -> (n,) scores, in the same order of architectures.
        seed_scores: (seeds, m) scores by one estimator with the weights of supernets trained from different seeds.
    """
    if len(scores_by_name) < 2:
        raise InvalidInput(f"Expected the scores of two or more estimators. Got {list(scores_by_name)}.")
    rows = as_rows(list(scores_by_name.values()))
    first, second, *_ = scores_by_name

    def agreement(compared: Values) -> Interval:
        return mean_agreement("spearman", compared, confidence=confidence, resamples=resamples, seed=seed)

    def standing(drawn: Positions) -> float | None:
        position = int(drawn[rows[0][drawn].argmax()])  # of the favourite; the first drawn wins ties
        shares = [_rank_share(other, drawn, position) for other in rows[1:]]
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


def _rank_share(scores: Values, drawn: Positions, position: int) -> float | None:
    """The share of the other drawn architectures with a higher score; equal ones count half; None without others."""
    others = scores[drawn[drawn != position]]
    if not len(others):
        return None
    own = scores[position]
    return float(np.mean(others > own) + np.mean(others == own) / 2)
