"""What a one-shot search finds: scores, ranking, search."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from polyarch.results.predictors import MethodRecord, Record


class ScoreRecord(Record):
    """A number for an architecture and how it was taken."""

    estimator: str
    value: float
    policy: str | None


class ScoredArchitecture(Record):
    """An architecture with its scores, and with those by the supernets of ``further_seeds`` where there are any."""

    architecture: dict[str, str]
    scores: list[ScoreRecord]
    parameters: int
    truth: float | None = None
    further_seeds: list[list[ScoreRecord]] = Field(default_factory=list)

    @property
    def key(self) -> str:
        """The key of the architecture in its space."""
        return "|".join(self.architecture.values())

    def score(self, estimator: str) -> float:
        """The value of one estimator, by the first supernet."""
        return _value(self.scores, estimator)

    def scores_by_seed(self, estimator: str) -> list[float]:
        """The values of one estimator, supernet by supernet."""
        return [_value(scores, estimator) for scores in (self.scores, *self.further_seeds)]


def _value(scores: list[ScoreRecord], estimator: str) -> float:
    return next(score.value for score in scores if score.estimator == estimator)


class IntervalRecord(Record):
    """An estimate with a 95 % bootstrap interval over architectures; None where there is nothing to estimate."""

    value: float | None
    low: float | None
    high: float | None


class TrustRecord(Record):
    """How far the ranking agrees with itself, over ``n`` architectures.

    The agreements are Spearman's correlations: of the two ``estimators``, and of supernets that differ in their seed
    (None with one supernet). ``top_architecture`` is the first by the first estimator, ``top_rank_interval`` the share
    of the other architectures that the other estimators put before it: 0 is the first place, 0.5 what chance gives.
    """

    n: int
    estimators: tuple[str, str]
    estimator_agreement: IntervalRecord
    seed_agreement: IntervalRecord | None
    top_architecture: dict[str, str]
    top_rank_interval: IntervalRecord


class TopRecord(Record):
    """The true values of the ``k`` architectures that an estimator puts first: mean, and standard deviation."""

    k: int
    mean: IntervalRecord
    spread: float


class DifferenceRecord(Record):
    """How much more the first estimator has than the second: Spearman's correlation, and mean truth of the top.

    Intervals are of the paired bootstrap over architectures, and over seeds where there are several.
    """

    first: str
    second: str
    spearman: IntervalRecord
    top: IntervalRecord | None


class RankingRecord(Record):
    """Random architectures, each another network, scored by several estimators, and how far the scores agree.

    ``quality`` maps an estimator to its agreement with the truth where there is one, and otherwise with the first
    estimator: the mean over ``seeds`` supernets. With a truth, ``top`` says for every estimator how good those are that
    it puts first, if there are more than ten architectures, and ``differences`` compares every two estimators.
    """

    reference: str
    architectures: list[ScoredArchitecture]
    quality: dict[str, Any]
    seeds: int = 1
    top: dict[str, TopRecord] = Field(default_factory=dict)
    differences: list[DifferenceRecord] = Field(default_factory=list)
    trust: TrustRecord | None = None


class EliminatedArchitecture(Record):
    """An architecture, the steps of its short run, and minus the sum of its losses up to there (None: diverged)."""

    architecture: dict[str, str]
    parameters: int
    steps: int
    value: float | None


class EliminationRecord(Record):
    """Random architectures ranked by training speed with early elimination, best first.

    After each of the ``rungs``, in steps, the worse half stops. ``spent`` are the steps of all of them, ``full_steps``
    those of a ranking in which all run to the end.
    """

    rungs: list[int]
    architectures: list[EliminatedArchitecture]
    spent: int
    full_steps: int


class SearchRecord(Record):
    """What was searched and found; no network comes twice.

    ``exhausted`` says that the search ended before its budget because it found no other network within the limits.
    """

    sampler: str
    objectives: list[str]
    limits: dict[str, float]
    evaluated: list[ScoredArchitecture]
    best: list[ScoredArchitecture]
    exhausted: bool = False


class OneShotRecord(MethodRecord):
    """Random architectures ranked, with or without early elimination, and those that were searched."""

    ranking: RankingRecord | None = None
    elimination: EliminationRecord | None = None
    search: SearchRecord | None = None

    @property
    def studied(self) -> Sequence[Record]:
        """Those of the search or, without one, those that were ranked."""
        if self.search is not None:
            return self.search.evaluated
        return [] if self.ranking is None else self.ranking.architectures
