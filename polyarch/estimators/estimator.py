"""The interface of all estimators: a score for an architecture."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from polyarch.predictive import Goal
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


@dataclass(frozen=True)
class Score:
    """The score of an architecture, the estimator that gave it and its batch-statistics policy."""

    value: float
    estimator: str
    policy: str | None
    seconds: float


class Estimator(ABC):
    """Scores an architecture with the weights of a supernet, which it leaves bit-identical.

    Equal inputs give equal bits: randomness is derived from a seed and the architecture, never from earlier calls.
    ``goal`` says which way is better: accuracies and negated losses are maximised, costs minimised.
    """

    name: str
    goal: ClassVar[Goal] = "maximise"

    @property
    def policy(self) -> str | None:
        """The batch-statistics policy in words; ``None`` if no data passes through the network."""
        return None

    @abstractmethod
    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The score; raises `NotFiniteError` instead of returning NaN or infinity."""

    def record(self, net: Supernet, architecture: Architecture) -> Score:
        """The score with its estimator, policy and time."""
        started = time.perf_counter()
        value = self.score(net, architecture)
        return Score(value, self.name, self.policy, time.perf_counter() - started)
