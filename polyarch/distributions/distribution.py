"""What every distribution over architectures can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn

from polyarch.spaces import Architecture, Gates, Space


class ArchDistribution(nn.Module, ABC):
    """A distribution q over the architectures of a space. Learnable ones hold their parameters.

    All logarithms are natural; every draw takes its generator.
    """

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space

    @abstractmethod
    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """n independent draws."""

    @abstractmethod
    def rsample(self, *, temperature: float, hard: bool = False, generator: Generator) -> Gates:
        """Gates of one relaxed draw, differentiable in the parameters of q.

        Gumbel-softmax at the given temperature: gate = softmax((log q + Gumbel noise) / temperature), choice
        -> (O,). With ``hard`` the value is one-hot and the gradient that of the soft gate (straight-through).
        """

    @abstractmethod
    def mean(self) -> Gates:
        """The marginal probabilities of every choice's options: choice -> (O,)."""

    @abstractmethod
    def log_prob(self, architectures: Sequence[Architecture]) -> Tensor:
        """log q(a), shape (S,); minus infinity outside the support."""

    @abstractmethod
    def kl(self, prior: ArchDistribution) -> Tensor:
        """KL(q || prior) = sum_a q(a) log(q(a) / prior(a)) in nats, a scalar."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """H[q] = -sum_a q(a) log q(a) in nats, a scalar."""

    @abstractmethod
    def mode(self) -> Architecture:
        """An architecture of highest probability; the first in the space's order among equals."""


def relaxed_one_hot(log_probs: Tensor, *, temperature: float, hard: bool, generator: Generator) -> Tensor:
    """A Gumbel-softmax draw from log probabilities (O,); straight-through when ``hard``."""
    uniform = torch.rand(log_probs.shape, generator=generator, dtype=torch.float64)
    noise = -torch.log(-torch.log(uniform.clamp(1e-12, 1 - 1e-12)))
    perturbed = log_probs + noise.to(log_probs)
    soft = torch.softmax(perturbed / temperature, dim=-1)
    if not hard:
        return soft
    one_hot = torch.zeros_like(soft).scatter_(-1, perturbed.argmax(-1, keepdim=True), 1.0)
    return one_hot + (soft - soft.detach())  # the bracket is exactly 0, so the value is exactly one-hot


def draw_indices(log_probs: Tensor, n: int, *, generator: Generator) -> list[int]:
    """n independent draws from a categorical given by its log probabilities (O,)."""
    probabilities = log_probs.detach().double().cpu().exp()
    rows: list[int] = torch.multinomial(probabilities, n, replacement=True, generator=generator).tolist()
    return rows
