"""What every estimator of an architecture can do."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from polyarch.errors import NotFiniteError
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet

Goal = Literal["maximise", "minimise"]


@dataclass(frozen=True)
class Score:
    """A number for an architecture, with what it was taken by and under which batch-statistics policy."""

    value: float
    estimator: str
    policy: str | None
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files."""
        return asdict(self)


class Estimator(ABC):
    """Scores an architecture with the weights of a supernet, which it leaves bit-identical.

    Equal inputs give equal bits: randomness is derived from a seed and the architecture, never from history.
    ``goal`` says which way is better: accuracies and negated losses are maximised, costs minimised.
    """

    name: str
    goal: ClassVar[Goal] = "maximise"

    @property
    def policy(self) -> str | None:
        """The batch-statistics policy in words; ``None`` where no data goes through the network."""
        return None

    @abstractmethod
    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The number; raises `NotFiniteError` instead of returning NaN or infinity."""

    def record(self, net: Supernet, architecture: Architecture) -> Score:
        """The number together with how it was taken."""
        started = time.perf_counter()
        value = self.score(net, architecture)
        return Score(value, self.name, self.policy, time.perf_counter() - started)


def require_finite(value: float, estimator: Estimator, architecture: Architecture) -> float:
    """The value, or an error that names estimator and architecture."""
    if not math.isfinite(value):
        raise NotFiniteError(f"Expected a finite {estimator.name} of {architecture.key}. Got {value}.")
    return value
