"""Dirichlet draws against closed forms: moments, pathwise gradients, the penalty."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from polyarch.distributions import FactorisedDirichlet
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import Choice, Space

SPACE = Space("one", (Choice("x", ("a", "b", "c")),))
BETA = torch.tensor([0.7, -0.8, 0.0], dtype=torch.float64)
DRAWS = 20_000


def mean(c: Tensor) -> Tensor:
    return c[0] / c.sum()


def second_moment(c: Tensor) -> Tensor:
    """E[theta_1^2] = c_1 (c_1 + 1) / (c_0 (c_0 + 1)), where c_0 is the sum."""
    return c[0] * (c[0] + 1) / (c.sum() * (c.sum() + 1))


def mixed_moment(c: Tensor) -> Tensor:
    """E[theta_1 theta_2] = c_1 c_2 / (c_0 (c_0 + 1))."""
    return c[0] * c[1] / (c.sum() * (c.sum() + 1))


CASES: list[tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = [
    (lambda theta: theta[:, 0], mean),
    (lambda theta: theta[:, 0].square(), second_moment),
    (lambda theta: theta[:, 0] * theta[:, 1], mixed_moment),
]


@pytest.fixture(scope="module")
def draws() -> tuple[Tensor, Tensor]:
    """beta as a leaf of every draw, (N, 3), and the draws theta, (N, 3): one choice per draw."""
    many = Space("many", tuple(Choice(f"x{draw}", ("a", "b", "c")) for draw in range(DRAWS)))
    q = FactorisedDirichlet(many, dict.fromkeys(many.choice_names, BETA))
    betas = torch.stack(q.scores())  # gradients are taken by log concentrations and carried on to beta by hand
    gates = q.rsample(temperature=1.0, generator=generator_at(0, "draws"))
    return betas, torch.stack(list(gates.values()))


def closed_gradient(moment: Callable[[Tensor], Tensor], beta: Tensor, step: float = 1e-5) -> Tensor:
    """Central differences of the closed form by beta."""
    found = torch.zeros_like(beta)
    for index in range(len(beta)):
        move = step * torch.eye(len(beta), dtype=beta.dtype)[index]
        ends = [moment(torch.nn.functional.elu(beta + sign * move) + 1) for sign in (1, -1)]
        found[index] = (ends[0] - ends[1]) / (2 * step)
    return found
