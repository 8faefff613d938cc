"""Which losses of a training run count: all of them, the last part, or an exponential average.

Ru et al. (2021), "Speedy Performance Estimation for Neural Architecture Search", arXiv:2006.04492, compare the three.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from polyarch.errors import InvalidInput


class Window(Protocol):
    """Reduces the losses l_1 .. l_T of a run to one number; the lower it is, the faster the run learned."""

    @property
    def suffix(self) -> str:
        """The ending of an estimator's name."""

    def total(self, losses: Sequence[float], /) -> float:
        """One number for the losses."""


@dataclass(frozen=True)
class WholeRun:
    """The sum over the whole run: sum_{t=1..T} l_t."""

    suffix: ClassVar[str] = ""

    def total(self, losses: Sequence[float], /) -> float:
        """The exactly rounded sum, which does not depend on how the run was split into pieces."""
        return math.fsum(losses)


@dataclass(frozen=True)
class LastPart:
    """The sum over the last ceil(share * T) losses of a run; "SoTL-E" if that is the last epoch."""

    share: float = 0.5
    suffix: ClassVar[str] = "_last"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InvalidInput(f"Expected a share of the run above 0 and up to 1. Got {self.share}.")

    def total(self, losses: Sequence[float], /) -> float:
        """The exactly rounded sum of the last losses, at least one of them."""
        return math.fsum(losses[len(losses) - math.ceil(self.share * len(losses)) :])


@dataclass(frozen=True)
class ExponentialAverage:
    """The exponential average at the end of a run: sum_t d^(T-t) l_t / sum_t d^(T-t) with decay d."""

    decay: float = 0.9
    suffix: ClassVar[str] = "_ema"

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise InvalidInput(f"Expected a decay from 0 to below 1. Got {self.decay}.")

    def total(self, losses: Sequence[float], /) -> float:
        """The average in nats, roughly over the last 1 / (1 - decay) losses."""
        weights = [self.decay**age for age in range(len(losses) - 1, -1, -1)]
        return math.fsum(w * loss for w, loss in zip(weights, losses, strict=True)) / math.fsum(weights)
