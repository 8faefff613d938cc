"""The uniform distribution over the members of a space, and divergences from priors of another kind."""

import math
from collections.abc import Sequence
from functools import cached_property, partial

import torch
from torch import Generator, Tensor

from polyarch.distributions.distribution import ArchDistribution, DrawMode, expectation, relaxed_one_hot
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Gates


class Uniform(ArchDistribution):
    """q(a) = 1 / |space| for every member that satisfies the constraints; has no parameters."""

    @cached_property
    def log_count(self) -> float:
        """log |space|; enumerates a constrained space once."""
        return math.log(self.space.count())

    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """Draws n members independently, by rejection if there are constraints."""
        return [self.space.sample(generator) for _ in range(n)]

    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """Draws every choice independently; a constrained space allows only one-hot draws of whole members."""
        if not self.space.constraints:
            draw = partial(relaxed_one_hot, temperature=temperature, mode=mode, generator=generator)
            return {choice.name: draw(torch.zeros(len(choice))) for choice in self.space.choices}
        if mode == "soft":
            raise InvalidInput(
                f"Expected a one-hot draw of {self.space.name!r}, which has constraints. Got a soft one."
            )
        return self.space.sample(generator).one_hot()

    def mean(self) -> Gates:
        """1/O for every option, or the marginals over the members if there are constraints."""
        if not self.space.constraints:
            return {c.name: torch.full((len(c),), 1 / len(c)) for c in self.space.choices}
        members = torch.tensor([a.indices for a in self.space.enumerate()])  # (A, C)
        return {
            choice.name: torch.bincount(members[:, position], minlength=len(choice)) / len(members)
            for position, choice in enumerate(self.space.choices)
        }

    def log_prob(self, architectures: Sequence[Architecture]) -> Tensor:
        """-log |space| for members, minus infinity for others, shape (S,)."""
        return torch.tensor([-self.log_count if a in self.space else -math.inf for a in architectures])

    def kl(self, prior: ArchDistribution) -> Tensor:
        """-log |space| - mean_a log prior(a); zero if the prior is uniform over the same unconstrained space."""
        unconstrained = not (self.space.constraints or prior.space.constraints)
        if isinstance(prior, Uniform) and prior.space == self.space and unconstrained:
            return torch.zeros(())
        return -self.log_count - prior.log_prob(list(self.space.enumerate())).mean()

    def entropy(self) -> Tensor:
        """H[q] = log |space|."""
        return torch.tensor(self.log_count)

    def mode(self) -> Architecture:
        """The first member in the order of the space."""
        if not self.space.constraints:
            return Architecture(self.space, (0,) * len(self.space.choices))
        return next(self.space.enumerate())


def divergence(q: ArchDistribution, prior: ArchDistribution) -> Tensor:
    """KL(q || prior) for a prior of another kind: log |space| - H[q] if it is uniform, otherwise by enumeration."""
    if prior.space != q.space:
        raise InvalidInput(f"Expected a prior over space {q.space.name!r}. Got one over {prior.space.name!r}.")
    if isinstance(prior, Uniform) and not prior.space.constraints:
        return prior.log_count - q.entropy()
    architectures = list(q.space.enumerate())
    log_q = q.log_prob(architectures)
    return expectation(log_q, log_q - prior.log_prob(architectures).to(log_q))
