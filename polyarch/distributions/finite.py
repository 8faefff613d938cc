"""Distributions over a finite list of whole architectures."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import torch
from torch import Generator, Tensor, nn

from polyarch.distributions.distribution import ArchDistribution, DrawMode, draw_indices, expectation, relaxed_one_hot
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Gates, Space


class FiniteDistribution(ArchDistribution):
    """A distribution over a list of A architectures, with log q (A,) from a subclass."""

    _one_hots: Tensor

    def __init__(self, space: Space, architectures: Iterable[Architecture]) -> None:
        super().__init__(space)
        self.architectures = tuple(architectures)
        for architecture in self.architectures:
            space.validate(architecture)
        self._rows = {architecture: row for row, architecture in enumerate(self.architectures)}
        if not self.architectures:
            raise InvalidInput(f"Expected at least one architecture of space {space.name!r}. Got none.")
        if len(self._rows) != len(self.architectures):
            raise InvalidInput("Expected distinct architectures. Got one of them twice.")
        offsets = torch.tensor([0, *(len(choice) for choice in space.choices)]).cumsum(0)
        columns = torch.tensor([a.indices for a in self.architectures]) + offsets[:-1]
        one_hots = torch.zeros(len(self.architectures), int(offsets[-1]))  # (A, sum of O)
        self.register_buffer("_one_hots", one_hots.scatter_(1, columns, 1.0), persistent=False)

    @abstractmethod
    def log_probabilities(self) -> Tensor:
        """log q of every listed architecture, (A,)."""

    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """Draws n architectures independently."""
        rows = draw_indices(self.log_probabilities(), n, generator=generator)
        return [self.architectures[row] for row in rows]

    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """Draws relaxed weights (A,) of whole architectures and returns their marginals: weights @ one-hots."""
        weights = relaxed_one_hot(self.log_probabilities(), temperature=temperature, mode=mode, generator=generator)
        return self._marginals(weights)

    def mean(self) -> Gates:
        """Marginal probabilities of the options: choice -> (O,)."""
        return self._marginals(self.log_probabilities().exp())

    def log_prob(self, architectures: Sequence[Architecture]) -> Tensor:
        """log q(a), shape (S,); minus infinity outside the list."""
        log_probs = self.log_probabilities()
        if architectures is self.architectures:  # the usual case in exact training
            return log_probs
        outside = log_probs.new_full((1,), -torch.inf)
        rows = [self._rows.get(architecture, len(self._rows)) for architecture in architectures]
        return torch.cat([log_probs, outside])[rows]

    def kl(self, prior: ArchDistribution) -> Tensor:
        """Sums over the list; infinite if q allows an architecture that the prior excludes."""
        log_q = self.log_probabilities()
        log_p = prior.log_prob(self.architectures).to(log_q)
        return expectation(log_q, log_q - log_p)

    def entropy(self) -> Tensor:
        """H[q], summed over the list."""
        log_q = self.log_probabilities()
        return -expectation(log_q, log_q)

    def mode(self) -> Architecture:
        """The most probable architecture of the list."""
        log_q = self.log_probabilities()
        equals: list[int] = (log_q == log_q.max()).nonzero().flatten().tolist()
        return min((self.architectures[row] for row in equals), key=lambda architecture: architecture.indices)

    def _marginals(self, weights: Tensor) -> Gates:
        sizes = [len(choice) for choice in self.space.choices]
        parts = (weights @ self._one_hots.to(weights)).split(sizes)
        return dict(zip(self.space.choice_names, parts, strict=True))


class Categorical(FiniteDistribution):
    """One categorical over all architectures of a small space, e.g. over depths: q = softmax(logits).

    Args:
        logits: (A,) start values in the order of ``space.members``; zeros (uniform) by default.
        learnable: whether the logits are a parameter; priors are fixed.
    """

    logits: Tensor

    def __init__(self, space: Space, logits: Tensor | None = None, *, learnable: bool = True) -> None:
        super().__init__(space, space.members)
        logits = torch.zeros(len(self.architectures)) if logits is None else logits.detach().clone()
        if logits.shape != (len(self.architectures),) or not logits.isfinite().all():
            raise InvalidInput(f"Expected {len(self.architectures)} finite logits. Got {logits}.")
        if learnable:
            self.logits = nn.Parameter(logits)
        else:
            self.register_buffer("logits", logits)

    def log_probabilities(self) -> Tensor:
        """log softmax(logits), (A,)."""
        return torch.log_softmax(self.logits, dim=0)


def geometric_prior(space: Space, ratio: float) -> Categorical:
    """A fixed prior over the options i of the space's only choice, proportional to ratio^(1 + i)."""
    if len(space.choices) != 1 or not ratio > 0:
        raise InvalidInput(f"Expected one choice and a ratio above 0. Got {len(space.choices)} and {ratio}.")
    exponents = 1 + torch.arange(len(space.choices[0]), dtype=torch.float64)
    logits = exponents * torch.log(torch.tensor(ratio, dtype=torch.float64))
    return Categorical(space, logits.float(), learnable=False)


class Empirical(FiniteDistribution):
    """A fixed, weighted set of architectures, such as wirings drawn before training.

    Weights are normalised and equal by default; those of a repeated architecture add up.
    """

    probabilities: Tensor

    def __init__(
        self, space: Space, architectures: Sequence[Architecture], weights: Sequence[float] | None = None
    ) -> None:
        weights = [1.0] * len(architectures) if weights is None else list(weights)
        if len(weights) != len(architectures):
            raise InvalidInput(f"Expected {len(architectures)} weights. Got {len(weights)}.")
        merged: dict[Architecture, float] = {}
        for architecture, weight in zip(architectures, weights, strict=True):
            if not 0 <= weight < float("inf"):
                raise InvalidInput(f"Expected finite weights of 0 or more. Got {weight} for {architecture.key}.")
            merged[architecture] = merged.get(architecture, 0.0) + weight
        super().__init__(space, merged)
        total = sum(merged.values())
        if total <= 0:
            raise InvalidInput("Expected at least one weight above 0. Got none.")
        self.register_buffer("probabilities", torch.tensor([w / total for w in merged.values()]))

    def log_probabilities(self) -> Tensor:
        """Logarithms of the normalised weights, (A,)."""
        return self.probabilities.log()
