"""Curvature against the dense Hessian of autograd, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.objectives.curvature import dominant_eigenvalue, hessian_vector_product
from polyarch.randomness import generator_at, global_seed


def quadratic(eigenvalues: Sequence[float]) -> tuple[Callable[[], Tensor], list[Tensor]]:
    """x^T A x / 2 in two parameters, where A has these eigenvalues in directions drawn at random."""
    size = len(eigenvalues)
    drawn = torch.randn(size, size, generator=generator_at(0, "directions"), dtype=torch.float64)
    directions, _ = torch.linalg.qr(drawn)
    matrix = directions @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ directions.T
    parts = [torch.ones(size // 2, dtype=torch.float64), torch.ones(size - size // 2, dtype=torch.float64)]
    parameters = [part.requires_grad_() for part in parts if part.numel()]
    return lambda: torch.cat(parameters) @ matrix @ torch.cat(parameters) / 2, parameters


def largest(loss: Callable[[], Tensor], parameters: Sequence[Tensor], steps: int = 20, seed: int = 0) -> float:
    return dominant_eigenvalue([loss], parameters, steps=steps, generator=generator_at(seed, "start"))


@pytest.mark.parametrize(
    "eigenvalues",
    [
        [3.0],
        [-3.0],
        [2.0, -3.0],
        [-1.0, -2.0, -5.0, -9.0],
        [4.0, 4.0, 4.0],  # the first product adds nothing to the basis
        [7.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [-7.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [1e-9, 5e-9, -2e-9],
        [5.0, 4.9, 1.0, -6.0, 0.5, 0.1, 0.0],
        [float(value) for value in range(-10, 8)],
    ],
    ids=str,
)
def test_the_largest_with_its_sign(eigenvalues: list[float]) -> None:
    assert largest(*quadratic(eigenvalues)) == pytest.approx(max(eigenvalues), rel=1e-9, abs=1e-15)


def test_few_steps_are_enough_where_one_stands_out_and_are_never_too_large() -> None:
    loss, parameters = quadratic([20.0, *(index / 60 for index in range(59))])
    found = [largest(loss, parameters, steps) for steps in (1, 2, 4, 6)]
    assert found == sorted(found)
    assert found[0] < 19 < found[-1] <= 20 * (1 + 1e-12)
    assert found[-1] == pytest.approx(20, rel=1e-6)


Network = tuple[Callable[[Tensor, Tensor], Tensor], list[Tensor]]


@pytest.fixture
def network() -> Network:
    """A loss of mixed operations in two vectors of logits, which is not quadratic."""
    with global_seed(0, "weights"):
        options = [nn.Linear(4, 3).double() for _ in range(4)]
        inputs, targets = torch.randn(12, 4, dtype=torch.float64), torch.randint(3, (12,))

    def loss(first: Tensor, second: Tensor) -> Tensor:
        outputs = torch.stack([option(inputs).tanh() for option in options])  # (4, B, 3)
        mixed = torch.einsum("o,obc->bc", torch.softmax(first, 0), outputs)
        return nn.functional.cross_entropy(mixed * torch.softmax(second, 0)[0] * 5, targets)

    logits = (torch.linspace(-1, 1, 4, dtype=torch.float64), torch.zeros(2, dtype=torch.float64))
    return loss, [part.requires_grad_() for part in logits]


def test_a_network_against_its_dense_hessian(network: Network) -> None:
    loss, logits = network
    blocks = torch.autograd.functional.hessian(loss, tuple(logits))
    dense = torch.cat([torch.cat(row, dim=1) for row in blocks])
    units = torch.eye(6, dtype=torch.float64)
    columns = [hessian_vector_product(loss(*logits), logits, unit) for unit in units]
    torch.testing.assert_close(torch.stack(columns), dense, rtol=1e-12, atol=1e-14)
    assert largest(lambda: loss(*logits), logits) == pytest.approx(float(torch.linalg.eigvalsh(dense)[-1]), rel=1e-9)


def test_of_several_losses_it_is_that_of_their_sum(network: Network) -> None:
    loss, logits = network
    parts = [lambda: loss(*logits) / 4, lambda: loss(logits[0] + 1, logits[1]) * 3 / 4]
    found = dominant_eigenvalue(parts, logits, generator=generator_at(0, "start"))
    assert found == pytest.approx(largest(lambda: parts[0]() + parts[1](), logits), rel=1e-9)


def test_the_same_bits_for_the_same_start_and_no_gradients_left(network: Network) -> None:
    loss, logits = network
    first, again, other = (largest(lambda: loss(*logits), logits, steps=2, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    assert all(part.grad is None for part in logits)


def test_single_precision_is_close() -> None:
    weights = torch.tensor([3.0, -1.0, 0.5, 0.0])
    parameters = [torch.tensor([0.3, 0.2, -0.4, 1.0], requires_grad=True)]
    assert largest(lambda: (weights * parameters[0] ** 2).sum(), parameters) == pytest.approx(6.0, rel=1e-5)


def test_a_linear_loss_and_a_parameter_that_is_not_used() -> None:
    used, unused = torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)
    assert largest(lambda: used.sum(), [used, unused]) == 0
    assert largest(lambda: (used**2).sum() / 2, [used, unused]) == pytest.approx(1)


def test_what_is_refused() -> None:
    loss, parameters = quadratic([1.0, 2.0])
    with pytest.raises(InvalidInput, match=r"1 or more steps and parameters. Got 0 and 2"):
        largest(loss, parameters, steps=0)
    with pytest.raises(InvalidInput, match=r"Got 20 and 0"):
        largest(loss, [])
    with pytest.raises(NotFiniteError, match=r"finite loss to compute its curvature. Got nan"):
        largest(lambda: loss() * float("nan"), parameters)
    root = torch.zeros(2, requires_grad=True)
    with pytest.raises(NotFiniteError, match=r"finite curvature"):
        largest(lambda: root.sqrt().sum(), [root])
