"""Networks drawn from a learned keep/drop posterior, within hard limits on their size.

The posterior is that of Zhou, Sun, Luo, Zha and Zeng (2020), "Posterior-Guided Neural Architecture Search",
arXiv:1906.09557; the limits are an addition.
"""

from functools import cached_property
from typing import Any

import torch

from polyarch.distributions import DepthAndChannels, KeepDrop
from polyarch.errors import ImpossibleSpace, InvalidInput
from polyarch.randomness import generator_at
from polyarch.searchers.limits import Limits
from polyarch.spaces import Architecture
from polyarch.supernets import GatedSupernet

PILOTS = 24
"""Draws that estimate the share within the limits."""
ENOUGH = 0.1
"""If at least this share of draws is within the limits, the others are simply rejected."""
WANTED = 0.5
"""Otherwise q is tilted until this fraction of the largest possible share is within them."""
STRONGEST = 2.0**40
REFINEMENTS = 6
ATTEMPTS = 500

Posterior = KeepDrop | DepthAndChannels
"""Over kept and dropped slices, optionally with a depth."""


class LimitedDraws:
    """Draws from q within limits; each draw depends on its position alone.

    Draws beyond the limits, and those that drop so much that they ignore the input, are rejected, which samples q under
    these conditions. Where too few would be within the limits, the draws come from the tilted distribution

        q_s(a) proportional to q(a) exp(-s cost(a)),   cost(a) = sum of the costs of kept slices as shares of limits

    under the same condition. Among all distributions with its mean cost, q_s has the smallest divergence KL(q_s || q).
    The strength s is roughly the smallest at which half of the largest possible share of draws is within the limits.
    The limits apply to the extracted network; cost(a) only makes small networks more probable.

    Args:
        limits: on the networks of ``net``; none by default.
        stream: distinguishes draws with the same seed.
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
        """The draw at position 0, 1, ...; the same in every process."""
        generator = generator_at(self.seed, self.stream, position)
        ignoring = False
        for _ in range(ATTEMPTS):
            (architecture,) = self.distribution.sample(1, generator=generator)
            if self.limits.allows(architecture):
                if not self.net.ignores_input(architecture):
                    return architecture
                ignoring = True
        if ignoring:
            raise ImpossibleSpace(
                f"Expected some architecture of space {self.net.space.name!r} that reads its input to meet the limits. "
                "Found only others: raise the limits."
            )
        raise self.limits.impossible()

    @property
    def strength(self) -> float:
        """The strength s; 0 if q is not tilted."""
        return self._tilted[0]

    @property
    def distribution(self) -> Posterior:
        """The distribution q_s, before draws beyond the limits are rejected."""
        return self._tilted[1]

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the measured costs, which worker processes do not need."""
        return {**self.__dict__, "limits": Limits(self.net, self.limits.limits, costs=self.limits.costs)}

    @cached_property
    def _tilted(self) -> tuple[float, Posterior]:
        if not self.limits.limits or self._share(self.q) >= ENOUGH:
            return 0.0, self.q
        wanted = WANTED * self._share(self._at(STRONGEST))
        if not wanted:  # no tilt helps
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
        """The cost of every slice as a share of the limits, (C,); latency counts as its share of the network's MACs."""
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
        """The share of pilot draws within the limits; they share their noise, so that it rises with the strength."""
        draws = q.sample(PILOTS, generator=generator_at(self.seed, self.stream, "pilots"))
        return sum(map(self.limits.allows, draws)) / PILOTS
