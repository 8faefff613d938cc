"""Scoring as a task for executors, with several supernets or sets of estimators in one pool of workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from polyarch.estimators import Failure, Score, Scoring
from polyarch.executors import Mapper
from polyarch.methods.one_shot.record import ScoreRecord
from polyarch.spaces import Architecture


@dataclass(frozen=True)
class StagedScoring:
    """Scores an architecture by the estimators of a task."""

    tasks: Mapping[str, Scoring]

    def __call__(self, item: tuple[str, Architecture]) -> list[Score] | Failure:
        """The scores of one (task, architecture)."""
        task, architecture = item
        return self.tasks[task](architecture)


ScoreMapper = Mapper[tuple[str, Architecture], list[Score] | Failure]


def score_records(scores: list[Score]) -> list[dict[str, Any]]:
    """Scores as plain values, without the time they took."""
    return [
        ScoreRecord(estimator=score.estimator, value=score.value, policy=score.policy).model_dump() for score in scores
    ]
