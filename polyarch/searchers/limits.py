"""Hard limits on the cost of architectures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Generator

from polyarch.errors import ImpossibleSpace
from polyarch.estimators import Estimator
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet

ATTEMPTS = 2000
SMALLEST = 1e-12
"""What a limit of 0 counts as where excesses are shares of limits."""
FIRST_ATTEMPTS = 150
"""Rejected draws after which, with 95 % confidence, fewer than 1 in 50 networks are within the limits: 0.98^150."""
MOST_TRIED = 300
"""Architectures that this search measures; spaces that need more are left to the draws."""
FAR = 1.0
"""An excess of the nearest architecture beyond which no further draw is worth its time."""


@dataclass(frozen=True)
class Limit:
    """The largest allowed value of a cost."""

    cost: Estimator
    at_most: float


class Limits:
    """Allows architectures within all limits, which are checked in order; measures every network only once.

    Args:
        net: the supernet whose architectures are limited.
        costs: the supernet whose networks are measured, if those that are delivered are not extracted from ``net``.
    """

    def __init__(self, net: Supernet, limits: Sequence[Limit] = (), *, costs: Supernet | None = None) -> None:
        self.net = net
        self.costs = costs or net
        self.limits = tuple(limits)
        self._measured: dict[tuple[Limit, str], float] = {}

    def measure(self, limit: Limit, architecture: Architecture) -> float:
        """The cost of an architecture, measured at the first call for its network."""
        key = (limit, architecture.canonical())
        if key not in self._measured:
            self._measured[key] = limit.cost.score(self.costs, architecture)
        return self._measured[key]

    def violation(self, architecture: Architecture) -> str | None:
        """The first limit that the architecture exceeds, in words."""
        for limit in self.limits:
            value = self.measure(limit, architecture)
            if value > limit.at_most:
                return f"{limit.cost.name} {value:.6g} > {limit.at_most:.6g}"
        return None

    def allows(self, architecture: Architecture) -> bool:
        """Whether the architecture is within every limit."""
        return self.violation(architecture) is None

    def excess(self, architecture: Architecture) -> float:
        """The sum of all excesses, each as a share of its limit; 0 within the limits."""
        shares = (self.measure(limit, architecture) / max(limit.at_most, SMALLEST) - 1 for limit in self.limits)
        return sum(share for share in shares if share > 0)

    def sample(self, generator: Generator) -> Architecture:
        """Draws an allowed architecture uniformly, by rejection.

        Limits far out of reach are refused earlier: if the first draws are all beyond them, and so is what changing one
        choice after the other leads to.
        """
        for attempt in range(ATTEMPTS):
            architecture = self.net.space.sample(generator)
            if self.allows(architecture):
                return architecture
            if attempt + 1 == FIRST_ATTEMPTS and self._are_far(architecture):
                break
        raise self.impossible()

    def _are_far(self, nearest: Architecture) -> bool:
        """Whether changing one choice after the other, always to the least excess, ends far beyond the limits.

        Costs that are sums over choices have no other end. Under constraints such changes may lead nowhere.
        """
        space, tried, before = self.net.space, 0, math.inf
        if space.constraints:
            return False
        while FAR <= self.excess(nearest) < before:
            before = self.excess(nearest)
            for position, choice in enumerate(space.choices):
                tried += len(choice.options)
                if tried > MOST_TRIED:
                    return False
                indices = nearest.indices
                changed = (
                    Architecture(space, (*indices[:position], option, *indices[position + 1 :]))
                    for option in range(len(choice.options))
                )
                nearest = min(changed, key=self.excess)
        return self.excess(nearest) >= FAR

    def impossible(self) -> ImpossibleSpace:
        """The error for limits that no architecture meets, with the smallest cost seen."""
        seen = []
        for limit in self.limits:
            values = [value for (measured, _), value in self._measured.items() if measured == limit]
            if values:
                seen.append(f"{limit.cost.name} at most {limit.at_most:.6g} (smallest seen: {min(values):.6g})")
        return ImpossibleSpace(
            f"Expected some architecture of space {self.net.space.name!r} to meet the limits. "
            f"Found none: {'; '.join(seen)}."
        )
