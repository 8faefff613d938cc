"""What every stage of a run is given."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from polyarch.estimators import Failure, Score, Scoring
from polyarch.executors import Mapper
from polyarch.runs.display import Display
from polyarch.runs.draws import distinct_draws
from polyarch.runs.parts import Parts
from polyarch.runs.workspace import Workspace
from polyarch.results import ScoreRecord
from polyarch.searchers import Limits
from polyarch.spaces import Architecture
from polyarch.training import StopRequest


@dataclass
class Context:
    """Parts, folder, display and stop request of one run."""

    parts: Parts
    workspace: Workspace
    display: Display
    stop: StopRequest = field(default_factory=StopRequest)
    started: float = field(default_factory=time.monotonic)

    def seconds_left(self, share: float = 1.0) -> float:
        """Until this share of ``max_minutes`` is over, counted from ``started``; endless without it."""
        minutes = self.parts.settings.max_minutes
        return math.inf if minutes is None else self.started + 60 * minutes * share - time.monotonic()

    @cached_property
    def limits(self) -> Limits:
        """The hard limits of this run."""
        return self.parts.limits()

    def draw(self, n: int, stream: str) -> list[Architecture]:
        """Up to n distinct random architectures that keep the limits; fewer only in a very small space."""
        return distinct_draws(self.limits, n, seed=self.parts.settings.seed, stream=stream)


@dataclass(frozen=True)
class StagedScoring:
    """Scores an architecture by the estimators of a stage; one pool of workers then serves all stages."""

    stages: Mapping[str, Scoring]

    def __call__(self, item: tuple[str, Architecture]) -> list[Score] | Failure:
        """The scores of one (stage, architecture)."""
        stage, architecture = item
        return self.stages[stage](architecture)


ScoreMapper = Mapper[tuple[str, Architecture], list[Score] | Failure]


def score_records(scores: list[Score]) -> list[dict[str, Any]]:
    """Scores as plain values, without the time they took."""
    return [
        ScoreRecord(estimator=score.estimator, value=score.value, policy=score.policy).model_dump() for score in scores
    ]
