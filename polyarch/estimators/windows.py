"""Which losses of a training run count: all, the last part, or an average that forgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from polyarch.errors import InvalidInput


class Window(Protocol):
    """Makes one number of the losses of a run; the lower, the faster the run learned."""

    @property
    def suffix(self) -> str:
        """What the name of an estimator ends with."""

    def total(self, losses: Sequence[float], /) -> float:
        """The number of the losses l_1 .. l_T."""


@dataclass(frozen=True)
class WholeRun:
    """The sum over the whole run: sum_{t=1..T} l_t."""

    suffix: ClassVar[str] = ""

    def total(self, losses: Sequence[float], /) -> float:
        """Exactly rounded, so that it does not depend on how the run was cut into pieces."""
        return math.fsum(losses)


@dataclass(frozen=True)
class LastPart:
    """The sum over the last part of the run, ceil(share * T) losses; "SoTL-E" where that is the last epoch."""

    share: float = 0.5
    suffix: ClassVar[str] = "_last"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InvalidInput(f"Expected a share of the run above 0 and up to 1. Got {self.share}.")

    def total(self, losses: Sequence[float], /) -> float:
        """The sum of the last losses, one at least."""
        count = math.ceil(self.share * len(losses))
        return math.fsum(losses[len(losses) - count :])


@dataclass(frozen=True)
class ExponentialAverage:
    """The exponential average at the end of the run: sum_t d^(T-t) l_t / sum_t d^(T-t) with decay d."""

    decay: float = 0.9
    suffix: ClassVar[str] = "_ema"

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise InvalidInput(f"Expected a decay from 0 to below 1. Got {self.decay}.")

    def total(self, losses: Sequence[float], /) -> float:
        """An average in nats, about over the last 1 / (1 - decay) losses."""
        weights = [self.decay**age for age in range(len(losses) - 1, -1, -1)]
        return math.fsum(w * loss for w, loss in zip(weights, losses, strict=True)) / math.fsum(weights)
