"""Scoring by several estimators, as a task that executors can run."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from polyarch.errors import NotFiniteError
from polyarch.estimators.estimator import Estimator, Score
from polyarch.estimators.training_speed import TraceEstimator
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


@dataclass(frozen=True)
class Failure:
    """Why an architecture has no score."""

    reason: str


@dataclass(frozen=True)
class Scoring:
    """Scores an architecture by several estimators; if a score is not finite, the result is a `Failure`.

    Estimators over the same `ShortRun` object read one run and split its seconds equally, so that the seconds of all
    scores add up to the time spent.
    """

    net: Supernet
    estimators: Sequence[Estimator]

    def __call__(self, architecture: Architecture) -> list[Score] | Failure:
        """One score per estimator, in the order of the estimators."""
        found: dict[int, Score] = {}
        try:
            for positions in self._groups():
                group = [self.estimators[position] for position in positions]
                found.update(zip(positions, self._scores(group, architecture), strict=True))
        except NotFiniteError as error:
            return Failure(str(error))
        return [found[position] for position in sorted(found)]

    def _groups(self) -> list[list[int]]:
        """The positions of the estimators, grouped by the run they read."""
        groups: dict[int, list[int]] = {}
        for position, estimator in enumerate(self.estimators):
            shared = estimator.run if isinstance(estimator, TraceEstimator) else estimator
            groups.setdefault(id(shared), []).append(position)
        return list(groups.values())

    def _scores(self, group: Sequence[Estimator], architecture: Architecture) -> list[Score]:
        readers = [estimator for estimator in group if isinstance(estimator, TraceEstimator)]
        if len(readers) < 2:
            return [estimator.record(self.net, architecture) for estimator in group]
        started = time.perf_counter()
        trace = readers[0].run.trace(self.net, architecture)
        seconds = (time.perf_counter() - started) / len(readers)
        return [Score(reader.read(trace, architecture), reader.name, reader.policy, seconds) for reader in readers]
