"""The interface of distributions over architectures, and relaxed draws.

Gumbel-softmax: Jang, Gu & Poole (2017), "Categorical Reparameterization with Gumbel-Softmax", arXiv:1611.01144;
Maddison, Mnih & Teh (2017), "The Concrete Distribution", arXiv:1611.00712.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from polyarch.spaces import Architecture, Gates, Space

DrawMode = Literal["soft", "straight_through", "chosen"]
"""The gates that a relaxed draw returns.

- soft: weights of all options.
- straight_through: one-hot, with the gradient of the soft gates.
- chosen: one-hot; the drawn option has the gradient of its soft gate, the others are constant zeros.
"""


class ArchDistribution(nn.Module, ABC):
    """A distribution q over the architectures of a space. Logarithms are natural, and every draw takes a generator."""

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space

    @abstractmethod
    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """Draws n architectures independently."""

    @abstractmethod
    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """Gates of one relaxed draw, differentiable in the parameters of q: choice -> (O,).

        Unless a subclass says otherwise, gate = softmax((log q + Gumbel noise) / temperature). One-hot draws follow q
        at any temperature.
        """

    @abstractmethod
    def mean(self) -> Gates:
        """Marginal probabilities of the options: choice -> (O,)."""

    @abstractmethod
    def log_prob(self, architectures: Sequence[Architecture]) -> Tensor:
        """log q(a) of S architectures, shape (S,); minus infinity outside the support."""

    @abstractmethod
    def kl(self, prior: "ArchDistribution") -> Tensor:
        """KL(q || prior) = sum_a q(a) log(q(a) / prior(a)) in nats, a scalar."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """H[q] = -sum_a q(a) log q(a) in nats, a scalar."""

    @abstractmethod
    def mode(self) -> Architecture:
        """The most probable architecture; among equals, the first in the order of the space."""


def relaxed_one_hot(log_probs: Tensor, *, temperature: float, mode: DrawMode, generator: Generator) -> Tensor:
    """Draws gates by Gumbel-softmax from log probabilities (O,)."""
    uniform = torch.rand(log_probs.shape, generator=generator, dtype=torch.float64)
    noise = -torch.log(-torch.log(uniform.clamp(1e-12, 1 - 1e-12)))
    perturbed = log_probs + noise.to(log_probs)
    return drawn_gates(torch.softmax(perturbed / temperature, dim=-1), perturbed.argmax(-1), mode)


def drawn_gates(soft: Tensor, index: Tensor, mode: DrawMode) -> Tensor:
    """The gates of a draw in the given mode, from its soft gates (..., O) and the index (...) of the drawn option."""
    if mode == "soft":
        return soft
    one_hot = torch.zeros_like(soft).scatter_(-1, index.unsqueeze(-1), 1.0)
    nothing = soft - soft.detach()  # exactly 0, which keeps the gates exactly one-hot
    return one_hot + nothing if mode == "straight_through" else one_hot * (1 + nothing)


def draw_indices(log_probs: Tensor, n: int, *, generator: Generator) -> list[int]:
    """Draws n options independently from log probabilities (O,)."""
    probabilities = log_probs.detach().double().cpu().exp()
    rows: list[int] = torch.multinomial(probabilities, n, replacement=True, generator=generator).tolist()
    return rows


def expectation(log_q: Tensor, values: Tensor) -> Tensor:
    """sum_a q(a) values(a), where 0 * infinity counts as 0: (A,), (A,) -> ()."""
    q = log_q.exp()
    return (q * torch.where(q > 0, values, torch.zeros_like(values))).sum()
