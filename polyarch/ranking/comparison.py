"""Several estimators against one truth: the truth of what each puts on top, and their paired differences.

All estimators are judged on the same resampled architectures and seeds, so that what makes a sample easy or hard
cancels out of a difference: Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 8.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from polyarch.errors import InvalidInput
from polyarch.ranking.bootstrap import Interval, Values
from polyarch.ranking.correlations import paired_rows
from polyarch.ranking.samples import RankSamples

TOP = 10
"""How many architectures count as the top."""


@dataclass(frozen=True)
class TopArchitectures:
    """The truth of the k architectures that an estimator puts first.

    Attributes:
        mean: their mean truth, averaged over seeds.
        spread: the standard deviation of their truth, averaged over seeds.
    """

    k: int
    mean: Interval
    spread: float


@dataclass(frozen=True)
class Difference:
    """How much better the first estimator ranks than the second: what the first has minus what the second has.

    Attributes:
        spearman: of Spearman's correlation with the truth.
        top: of the mean truth of the top; None if there is no top.
    """

    first: str
    second: str
    spearman: Interval
    top: Interval | None


@dataclass(frozen=True)
class Comparison:
    """What `compare_estimators` finds; ``top`` is empty where there are no more architectures than belong to it."""

    top: dict[str, TopArchitectures]
    differences: list[Difference]

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)


def compare_estimators(
    scores_by_name: Mapping[str, Sequence[float] | Sequence[Sequence[float]]],
    truth: Sequence[float],
    *,
    k: int = TOP,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """The top of every estimator, and the difference of every two, with bootstrap intervals.

    For estimators f, g, seeds s and true values y, the differences are mean_s [rho(f_s, y) - rho(g_s, y)] and
    mean_s [top_k(f_s, y) - top_k(g_s, y)]. Intervals are over resampled architectures and, with several seeds, over
    resampled seeds; both estimators of a difference see the same sample.

    Args:
        scores_by_name: estimators -> (n,) scores, or (seeds, n) with as many seeds for each; the highest come first.
        truth: (n,) true values.
    """
    rows = {name: paired_rows(scores, truth, least=3) for name, scores in scores_by_name.items()}
    shapes = {name: x.shape for name, (x, _) in rows.items()}
    if len(set(shapes.values())) != 1:
        raise InvalidInput(f"Expected as many seeds and architectures of every estimator. Got {shapes}.")
    if k < 1:
        raise InvalidInput(f"Expected a top of 1 or more architectures. Got {k}.")
    ((_, n),) = set(shapes.values())
    samples = RankSamples(truth, confidence=confidence, resamples=resamples, seed=seed)
    correlations = {name: samples.spearman(scores) for name, scores in scores_by_name.items()}
    best = {name: samples.top(scores, k) for name, scores in scores_by_name.items()} if n > k else {}

    def difference(first: str, second: str) -> Difference:
        top = samples.interval(best[first] - best[second]) if best else None
        return Difference(first, second, samples.interval(correlations[first] - correlations[second]), top)

    def top(name: str) -> TopArchitectures:
        return TopArchitectures(k, samples.interval(best[name]), float(_top(*rows[name], k).std(axis=1).mean()))

    return Comparison({name: top(name) for name in best}, [difference(*pair) for pair in combinations(rows, 2)])


def _top(x: Values, y: Values, k: int) -> Values:
    """The truth y of the k highest predictions x in every row: (seeds, n) -> (seeds, k); the first ones win ties."""
    return np.take_along_axis(y, np.argsort(-x, axis=1, kind="stable")[:, :k], axis=1)
