"""Proxies that move inputs against closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from polyarch.data import Batches, NamedInputs, TensorData
from polyarch.errors import InvalidInput
from polyarch.estimators import JacobianCovariance, Zen
from polyarch.estimators.input_proxies import FLOOR, STEP
from polyarch.randomness import generator_at


def batch(inputs: Tensor) -> Batches:
    """All examples at once."""
    return Batches(TensorData(inputs, torch.zeros(len(inputs), dtype=torch.long), 2), len(inputs), shuffle=False)


def score(eigenvalues: list[float]) -> float:
    """-sum_i (log(v_i + k) + 1 / (v_i + k))."""
    return -sum(math.log(v + FLOOR) + 1 / (v + FLOOR) for v in eigenvalues)


def test_a_linear_network_treats_all_examples_alike() -> None:
    """All rows of J are equal: one eigenvalue is the number of examples, the others are 0."""
    inputs = torch.randn(4, 6, generator=generator_at(0, "inputs"), dtype=torch.float64)
    found = JacobianCovariance(batch(inputs)).value(nn.Linear(6, 3).double())
    assert found == pytest.approx(score([4, 0, 0, 0]), rel=1e-6)


class Rectified(nn.Module):
    """sum_i w_i relu(x_i)."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, x: Tensor) -> Tensor:
        return (torch.relu(x) * self.weights).sum(1, keepdim=True)


def test_rows_that_are_not_correlated_have_the_highest_score() -> None:
    """J of the two examples is (1, -1, 0, 0) and (0, 0, 1, -1): means 0, product 0, correlation 0."""
    network = Rectified(torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64))
    inputs = torch.tensor([[1.0, 2.0, -1.0, -1.0], [-1.0, -1.0, 3.0, 1.0]], dtype=torch.float64)
    assert JacobianCovariance(batch(inputs)).value(network) == pytest.approx(score([1, 1]), rel=1e-9)


def test_an_input_that_changes_nothing_has_no_score() -> None:
    network = Rectified(torch.ones(2, dtype=torch.float64))
    inputs = torch.tensor([[1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    assert math.isnan(JacobianCovariance(batch(inputs)).value(network))


def test_whole_numbers_cannot_be_moved() -> None:
    network, tokens = nn.Embedding(5, 2), torch.tensor([[1, 2], [3, 4]])
    with pytest.raises(InvalidInput, match=r"inputs of numbers.*Got only whole numbers"):
        JacobianCovariance(batch(tokens)).value(network)


def test_zen_of_a_linear_layer_is_the_mean_distance_of_its_features() -> None:
    """f(x) - f(x + a e) = -a W e, whatever x is."""
    network = nn.Sequential(nn.Conv2d(2, 3, 1, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    generator = generator_at(5, "zen")
    weights = torch.randn(3, 2, 1, 1, generator=generator)
    torch.randn(2, 3, generator=generator)  # the classifier's, which does not count
    torch.randn(8, 2, 4, 4, generator=generator)  # x
    noise = torch.randn(8, 2, 4, 4, generator=generator)
    moved = STEP * torch.einsum("cd,ndhw->nchw", weights[:, :, 0, 0], noise)
    expected = moved.flatten(1).norm(dim=1).mean().log().item()
    assert Zen((2, 4, 4), pairs=8, seed=5).value(network) == pytest.approx(expected, abs=1e-4)


class Times(nn.Module):
    """Multiplies by a number that is no weight."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def test_normalisation_does_not_hide_the_scale_of_its_inputs() -> None:
    """Batch normalisation gives the same features for 7 z as for z: the logarithm of 7 is in its variances."""

    def zen(factor: float) -> float:
        layers = [nn.Conv2d(2, 3, 3, padding=1), Times(factor), nn.BatchNorm2d(3), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
        return Zen((2, 6, 6)).value(nn.Sequential(*layers, nn.Flatten(), nn.Linear(3, 2)))

    assert zen(7.0) - zen(1.0) == pytest.approx(math.log(7), abs=1e-3)


def test_zen_wants_one_input() -> None:
    inputs = NamedInputs({"a": torch.zeros(1, 2), "b": torch.zeros(1, 3)})
    with pytest.raises(InvalidInput, match="one input"):
        Zen(inputs).value(nn.Linear(2, 2))
