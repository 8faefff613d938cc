"""Every member of a space equally likely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Generator, Tensor

from polyarch.distributions.distribution import ArchDistribution, DrawMode, relaxed_one_hot
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Gates, Space


class Uniform(ArchDistribution):
    """q(a) = 1 / |space| for every member, constraints respected. Fixed: it has no parameters."""

    def __init__(self, space: Space) -> None:
        super().__init__(space)

    @cached_property
    def log_count(self) -> float:
        """log |space|; walks a constrained space once."""
        return math.log(self.space.count())

    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """n independent draws, by rejection where there are constraints."""
        return [self.space.sample(generator) for _ in range(n)]

    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """Relaxed draws of every choice; in a constrained space only whole members (one-hot) can be drawn."""
        if not self.space.constraints:
            zeros = {choice.name: torch.zeros(len(choice)) for choice in self.space.choices}
            return {
                name: relaxed_one_hot(logits, temperature=temperature, mode=mode, generator=generator)
                for name, logits in zeros.items()
            }
        if mode == "soft":
            raise InvalidInput(
                f"Expected a one-hot draw: a relaxed draw would leave the constraints of space {self.space.name!r}."
            )
        return self.space.sample(generator).one_hot()

    def mean(self) -> Gates:
        """1/O for every option, or the marginals over the members of a constrained space."""
        if not self.space.constraints:
            return {c.name: torch.full((len(c),), 1 / len(c)) for c in self.space.choices}
        members = torch.tensor([a.indices for a in self.space.enumerate()])  # (A, C)
        return {
            choice.name: torch.bincount(members[:, position], minlength=len(choice)) / len(members)
            for position, choice in enumerate(self.space.choices)
        }

    def log_prob(self, architectures: Sequence[Architecture]) -> Tensor:
        """-log |space|, shape (S,); minus infinity outside."""
        return torch.tensor([-self.log_count if a in self.space else -math.inf for a in architectures])

    def kl(self, prior: ArchDistribution) -> Tensor:
        """-log |space| - mean_a log prior(a); zero against the uniform distribution over the same product."""
        if isinstance(prior, Uniform) and prior.space == self.space:
            same_product = not (self.space.constraints or prior.space.constraints)
            if same_product:
                return torch.zeros(())
        return -self.log_count - prior.log_prob(list(self.space.enumerate())).mean()

    def entropy(self) -> Tensor:
        """log |space|."""
        return torch.tensor(self.log_count)

    def mode(self) -> Architecture:
        """The first member; only a constrained space has to be walked for it."""
        if not self.space.constraints:
            return Architecture(self.space, (0,) * len(self.space.choices))
        return next(self.space.enumerate())
