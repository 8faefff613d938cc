"""Dirichlet draws against closed forms: moments, pathwise gradients, the penalty."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import elu

from polyarch.distributions import FactorisedDirichlet
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import Choice, Space

BETA = torch.tensor([0.7, -0.8, 0.0], dtype=torch.float64)
SPACE = Space("one", (Choice("x", ("a", "b", "c")),))
COPIES = Space("copies", tuple(Choice(f"x{copy}", ("a", "b", "c")) for copy in range(200)))
"""Equal choices with parameters of their own, so that one pass gives many draws and gradients."""

ROUNDS = 20


def mean(c: Tensor) -> Tensor:
    return c[0] / c.sum()


def second_moment(c: Tensor) -> Tensor:
    """E[theta_1^2] = c_1 (c_1 + 1) / (c_0 (c_0 + 1)), where c_0 is the sum."""
    return c[0] * (c[0] + 1) / (c.sum() * (c.sum() + 1))


def mixed_moment(c: Tensor) -> Tensor:
    """E[theta_1 theta_2] = c_1 c_2 / (c_0 (c_0 + 1))."""
    return c[0] * c[1] / (c.sum() * (c.sum() + 1))


def test_moments_and_pathwise_gradients_of_draws() -> None:
    """Within four standard errors of the closed form and of its central differences by beta."""
    q = FactorisedDirichlet(COPIES, dict.fromkeys(COPIES.choice_names, BETA))
    generator = generator_at(0, "draws")
    draws = [torch.stack(list(q.rsample(temperature=1.0, generator=generator).values())) for _ in range(ROUNDS)]
    theta = torch.stack(draws)  # (rounds, copies, 3)
    moves = 1e-5 * torch.eye(3, dtype=torch.float64)
    cases: list[tuple[Tensor, Callable[[Tensor], Tensor]]] = [
        (theta[..., 0], mean),
        (theta[..., 0].square(), second_moment),
        (theta[..., 0] * theta[..., 1], mixed_moment),
    ]
    for function, closed in cases:
        values = function.mean(0)  # (copies,)
        gradients = torch.stack(torch.autograd.grad(values.sum(), list(q.parameters()), retain_graph=True))
        differences = [closed(elu(BETA + move) + 1) - closed(elu(BETA - move) + 1) for move in moves]
        expected = torch.stack(differences) / 2e-5  # (3,)
        for found, exact in ((values.detach(), closed(elu(BETA) + 1)), (gradients, expected)):
            error = found.std(0) / len(found) ** 0.5
            assert (error < 0.008).all()
            assert ((found.mean(0) - exact).abs() < 4 * error).all()
            assert (exact.abs() > 2 * error).all()  # so that a wrong sign would show


def test_a_draw_is_uniform_on_the_simplex_at_the_start() -> None:
    q = FactorisedDirichlet(SPACE)
    assert q.concentrations()["x"].tolist() == [1.0, 1.0, 1.0] and q.penalty().item() == 0
    thetas = [q.rsample(temperature=1.0, generator=generator_at(draw, "draw"))["x"].detach() for draw in range(2000)]
    shares = (torch.stack(thetas) < 0.5).double().mean(0)  # 1 - (1 - 0.5)^2 of a Beta(1, 2)
    torch.testing.assert_close(shares, torch.full((3,), 0.75).double(), atol=0.04, rtol=0)


def test_the_temperature_does_not_matter() -> None:
    q = FactorisedDirichlet(SPACE, {"x": BETA})
    cold, hot = (q.rsample(temperature=t, generator=generator_at(0, "draw"))["x"] for t in (0.01, 100.0))
    assert cold.equal(hot)


def test_concentrations_are_elu_plus_one_and_marginals_their_shares() -> None:
    q = FactorisedDirichlet(SPACE, {"x": BETA})
    torch.testing.assert_close(q.concentrations()["x"], elu(BETA) + 1)
    torch.testing.assert_close(q.mean()["x"], (elu(BETA) + 1) / (elu(BETA) + 1).sum())


@pytest.mark.parametrize("beta", [[-20.0, -18.0, -20.0], [-20.0, 60.0, -20.0]])
def test_tiny_concentrations_give_numbers(beta: list[float]) -> None:
    """In single precision elu(beta) + 1 would be 0."""
    q = FactorisedDirichlet(SPACE, {"x": torch.tensor(beta)})
    gate = q.rsample(temperature=1.0, generator=generator_at(0, "draw"))["x"]
    (gradient,) = torch.autograd.grad(gate[0] + q.log_marginals()[0].sum() + q.penalty(), list(q.parameters()))
    assert gate.isfinite().all() and gradient.isfinite().all()
    assert q.mode()["x"] == 1


def test_the_penalty_is_the_divergence_by_integration() -> None:
    """Of one choice with two options: KL(Beta(c, d) || uniform) = integral of p log p."""
    space = Space("two", (Choice("x", ("a", "b")), Choice("y", ("a", "b"))))
    q = FactorisedDirichlet(space, {"x": torch.tensor([2.0, 3.0]).double()})
    c, d = q.concentrations()["x"].detach()
    theta = torch.linspace(0, 1, 200_001, dtype=torch.float64)[1:-1]
    log_p = torch.distributions.Beta(c, d).log_prob(theta)
    torch.testing.assert_close(q.penalty().detach(), torch.trapezoid(log_p.exp() * log_p, theta), rtol=1e-6, atol=1e-8)


def test_impossible_betas_are_refused() -> None:
    with pytest.raises(InvalidInput, match="3 finite betas"):
        FactorisedDirichlet(SPACE, {"x": torch.zeros(2)})
