"""Scoring as a task for executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyarch.errors import NotFiniteError
from polyarch.estimators.estimator import Estimator, Score
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


@dataclass(frozen=True)
class Failure:
    """Why an architecture has no score."""

    reason: str


@dataclass(frozen=True)
class Scoring:
    """Scores an architecture by several estimators; a score that is not finite is a `Failure`, not a number."""

    net: Supernet
    estimators: Sequence[Estimator]

    def __call__(self, architecture: Architecture) -> list[Score] | Failure:
        """One score per estimator, in their order."""
        try:
            return [estimator.record(self.net, architecture) for estimator in self.estimators]
        except NotFiniteError as error:
            return Failure(str(error))
