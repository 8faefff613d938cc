"""What every distribution over architectures can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from polyarch.spaces import Architecture, Gates, Space

DrawMode = Literal["soft", "straight_through", "chosen"]
"""What the gates of a relaxed draw are.

- soft: weights of all options.
- straight_through: one-hot, with the gradient of the soft gates.
- chosen: one-hot; the drawn option has the gradient of its soft gate, the others are the constant 0.
"""


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
    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """Gates of one relaxed draw, differentiable in the parameters of q: choice -> (O,).

        Unless a subclass says otherwise, Gumbel-softmax at the given temperature: gate = softmax((log q + Gumbel
        noise) / temperature). One-hot draws are draws from q, whatever the temperature.
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


def relaxed_one_hot(log_probs: Tensor, *, temperature: float, mode: DrawMode, generator: Generator) -> Tensor:
    """A Gumbel-softmax draw from log probabilities (O,)."""
    uniform = torch.rand(log_probs.shape, generator=generator, dtype=torch.float64)
    noise = -torch.log(-torch.log(uniform.clamp(1e-12, 1 - 1e-12)))
    perturbed = log_probs + noise.to(log_probs)
    return drawn_gates(torch.softmax(perturbed / temperature, dim=-1), perturbed.argmax(-1), mode)


def drawn_gates(soft: Tensor, index: Tensor, mode: DrawMode) -> Tensor:
    """The gates (O,) of a draw in one of the modes.

    Args:
        soft: the soft gates (O,).
        index: the drawn option, ().
    """
    if mode == "soft":
        return soft
    one_hot = torch.zeros_like(soft).scatter_(-1, index.unsqueeze(-1), 1.0)
    nothing = soft - soft.detach()  # exactly 0, so the value is exactly one-hot
    return one_hot + nothing if mode == "straight_through" else one_hot * (1 + nothing)


def draw_indices(log_probs: Tensor, n: int, *, generator: Generator) -> list[int]:
    """n independent draws from a categorical given by its log probabilities (O,)."""
    probabilities = log_probs.detach().double().cpu().exp()
    rows: list[int] = torch.multinomial(probabilities, n, replacement=True, generator=generator).tolist()
    return rows


def expectation(log_q: Tensor, values: Tensor) -> Tensor:
    """sum_a q(a) values(a) with 0 * infinity = 0, a scalar from (A,) and (A,)."""
    q = log_q.exp()
    return (q * torch.where(q > 0, values, torch.zeros_like(values))).sum()
