"""The penalty of keep/drop kernels: closed forms, gradients, and the ablation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from polyarch.distributions import KeepDrop
from polyarch.errors import InvalidInput
from polyarch.objectives import SpikeSlab
from polyarch.randomness import generator_at
from polyarch.supernets import GatedSupernet, gate


def network() -> GatedSupernet:
    layers = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    with torch.no_grad():
        for name, parameter in layers.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator_at(0, name)))
    return gate(layers, torch.zeros(2, 2, dtype=torch.float64))


def entropy(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


@pytest.mark.parametrize("weight_decay", [None, 0.01])
def test_the_formula(weight_decay: float | None) -> None:
    net = network()
    drop = {"2": 0.3, "4": 0.6}
    q = KeepDrop(net.space, net.groups, drop=drop).double()
    expected = 0.0
    for name, slices in (("2", 3), ("4", 4)):
        norm = net.model.get_submodule(name).get_parameter("weight").norm().item()
        weight = 1.5**2 * (1 - drop[name]) / (2 * 50) if weight_decay is None else weight_decay
        expected += weight * norm**2 - slices / 50 * entropy(drop[name])
    found = SpikeSlab(num_data=50, length_scale=1.5, weight_decay=weight_decay)(net.square_norms(), q)
    assert math.isclose(found.item(), expected, rel_tol=1e-6)


@pytest.mark.parametrize("weight_decay", [None, 0.01])
def test_gradients_match_differences(weight_decay: float | None) -> None:
    """In p and in the kernels."""
    net = network()
    q = KeepDrop(net.space, net.groups, drop={"2": 0.3, "4": 0.6}).double()
    objective = SpikeSlab(num_data=50, length_scale=1.5, weight_decay=weight_decay)
    places: list[Tensor] = [q.logits, *(net.model.get_submodule(name).get_parameter("weight") for name in ("2", "4"))]
    gradients = torch.autograd.grad(objective(net.square_norms(), q), places)
    for place, gradient in zip(places, gradients, strict=True):
        for index in range(min(place.numel(), 4)):
            ends = []
            for step in (1e-6, -2e-6):
                with torch.no_grad():
                    place.view(-1)[index] += step
                ends.append(objective(net.square_norms(), q).item())
            with torch.no_grad():
                place.view(-1)[index] += 1e-6
            assert math.isclose(gradient.view(-1)[index].item(), (ends[0] - ends[1]) / 2e-6, rel_tol=1e-5, abs_tol=1e-9)


def test_the_best_probability_for_given_kernels() -> None:
    """log p - log(1 - p) = d^2 ||m||^2 / (2K): no slope there, and the penalty grows on both sides."""
    net = network()
    q = KeepDrop(net.space, net.groups).double()
    norms = net.square_norms().detach()
    objective = SpikeSlab(num_data=10, length_scale=0.8)
    best = 0.8**2 * norms / (2 * q.sizes)
    found = []
    for shift in (-0.1, 0.1, 0.0):
        with torch.no_grad():
            q.logits.copy_(best + shift)
        found.append(objective(norms, q))
    (slope,) = torch.autograd.grad(found[-1], [q.logits])
    torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-12)
    assert found[-1] < min(found[:-1])


def test_a_constant_weight_tells_p_nothing_of_the_kernels() -> None:
    net = network()
    q = KeepDrop(net.space, net.groups, drop=0.3).double()
    constant = SpikeSlab(num_data=10, length_scale=1.0, weight_decay=0.1)
    (first,) = torch.autograd.grad(constant(net.square_norms().detach(), q), [q.logits])
    (second,) = torch.autograd.grad(constant(100 * net.square_norms().detach(), q), [q.logits])
    assert first.equal(second)


@pytest.mark.parametrize("wrong", [{"num_data": 0}, {"length_scale": -1.0}, {"weight_decay": -0.1}])
def test_mistakes(wrong: dict[str, float]) -> None:
    settings = {"num_data": 10, "length_scale": 1.0, **wrong}
    with pytest.raises(InvalidInput, match="or more"):
        SpikeSlab(**settings)  # type: ignore[arg-type]


class Pooled(nn.Module):
    """A pooling beside a convolution, read by one layer: a branch without and one with weights."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.convolution = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.pool, self.last = nn.AvgPool2d(3, 1, 1), nn.Conv2d(4, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        logits: Tensor = self.last(torch.relu(self.pool(x) + self.convolution(x))).mean((2, 3))
        return logits


@pytest.mark.parametrize("square_scale", [0.1, 50.0, 150.0])
def test_the_prior_alone_treats_a_pooling_like_the_layer_that_reads_it(square_scale: float) -> None:
    """At the best p for given kernels, and after the prior has shrunk the kernels, too: then p = 1/2, no collapse.

    With the kernel 1 for a channel that is passed on, it would want p = sigmoid(d^2 / 2) whatever the kernels are.
    """
    model = Pooled().double()
    net = gate(model, torch.randn(2, 2, 6, 6).double(), groups={"pool": ["pool"], "last": ["last"]})
    q = KeepDrop(net.space, net.groups, drop=0.1).double()
    objective = SpikeSlab(num_data=500_000, length_scale=square_scale**0.5)
    for scale in (1.0, 0.1, 0.0):
        with torch.no_grad():
            model.last.weight.mul_(scale)
        slices = float(model.last.weight.detach().square().sum()) / 4
        with torch.no_grad():
            q.logits.fill_(square_scale / 2 * slices)
        (slope,) = torch.autograd.grad(objective(net.square_norms().detach(), q), [q.logits])
        torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-12)
    assert q.drop.tolist() == [0.5, 0.5]
