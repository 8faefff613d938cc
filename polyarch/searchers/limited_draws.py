"""Networks drawn from a learned keep/drop posterior, within hard limits on their size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch

from polyarch.distributions import DepthAndChannels, KeepDrop
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.searchers.limits import Limits
from polyarch.spaces import Architecture
from polyarch.supernets import GatedSupernet

PILOTS = 24
"""Draws by which the strength is found."""
ENOUGH = 0.1
"""With this share of draws that keep the limits there is no need to favour small networks: the others are refused."""
WANTED = 0.5
"""The share that should keep them otherwise, of the largest that can."""
STRONGEST = 2.0**40
REFINEMENTS = 6
ATTEMPTS = 500


Posterior = KeepDrop | DepthAndChannels
"""Over kept and dropped slices, with or without a depth."""


class LimitedDraws:
    """Draws from q that keep limits, each found by its position alone.

    A draw is repeated until it keeps the limits: what comes out is q, given that they are kept. Where that would take
    too many attempts, draws are those of

        q_s(a) proportional to q(a) exp(-s cost(a)),   cost(a) = sum over kept slices of what they cost, in limits

    given that the limits are kept. Of all distributions of that mean cost q_s is the closest to q. The strength s is
    about the smallest at which half as many draws keep the limits as ever can: half of them, where the slices decide
    about it alone. Limits are on the network that is extracted; the
    sum serves only to favour small networks.

    Args:
        limits: on the networks of ``net``; none by default.
        stream: tells draws from the same seed apart.
    """

    def __init__(
        self, net: GatedSupernet, q: Posterior, limits: Limits | None = None, *, seed: int, stream: str = "draws"
    ) -> None:
        if q.space != net.space:
            raise InvalidInput(f"Expected a posterior over {net.space.name!r}. Got one over {q.space.name!r}.")
        self.net = net
        self.q = q
        self.limits = limits or Limits(net)
        self.seed = seed
        self.stream = stream

    def __call__(self, position: int) -> Architecture:
        """The draw at a position, 0, 1, ...; the same in every process."""
        return next(self._allowed(position))

    @property
    def strength(self) -> float:
        """s; 0 where q itself is drawn from."""
        return self._tilted[0]

    @property
    def distribution(self) -> Posterior:
        """q_s, out of which draws beyond the limits are refused."""
        return self._tilted[1]

    def __getstate__(self) -> dict[str, Any]:
        """Without what limits have measured so far: worker processes need none of it."""
        return {**self.__dict__, "limits": Limits(self.net, self.limits.limits)}

    def _allowed(self, position: int) -> Iterator[Architecture]:
        generator = generator_at(self.seed, self.stream, position)
        for _ in range(ATTEMPTS):
            (architecture,) = self.distribution.sample(1, generator=generator)
            if self.limits.allows(architecture):
                yield architecture
        raise self.limits.impossible()

    @cached_property
    def _tilted(self) -> tuple[float, Posterior]:
        if not self.limits.limits or self._share(self.q) >= ENOUGH:
            return 0.0, self.q
        wanted = WANTED * self._share(self._at(STRONGEST))
        if not wanted:  # to favour small networks does not help
            return 0.0, self.q
        high = 1.0
        while self._share(self._at(high)) < wanted and high < STRONGEST:
            high *= 2
        low = high / 2 if high > 1 else 0.0
        for _ in range(REFINEMENTS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._share(self._at(middle)) >= wanted else (middle, high)
        return high, self._at(high)

    def _at(self, strength: float) -> Posterior:
        return self.q.tilted(self.costs, strength)

    @cached_property
    def costs(self) -> torch.Tensor:
        """Of every slice in limits, (C,); what is timed counts like the multiply-accumulates of the whole network."""
        parameters, macs = self.net.slice_costs()
        total = torch.zeros_like(macs)
        for limit in self.limits.limits:
            match limit.cost.name:
                case "params":
                    total += parameters / limit.at_most
                case "macs":
                    total += macs / limit.at_most
                case _:
                    total += macs / macs.sum()
        return total

    def _share(self, q: Posterior) -> float:
        """Of pilot draws that keep the limits; the same noise for every strength, so that the share rises with it."""
        draws = q.sample(PILOTS, generator=generator_at(self.seed, self.stream, "pilots"))
        return sum(map(self.limits.allows, draws)) / PILOTS
