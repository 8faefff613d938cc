"""Joint training of kernels and drop probabilities: the contract, the loss of a step, and what is learnt."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from polyarch.data import Batch, Batches
from polyarch.distributions import KeepDrop
from polyarch.errors import InvalidInput
from polyarch.objectives import SpikeSlab
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import PosteriorGuided, Strategy
from polyarch.supernets import gate
from polyarch.testing import StrategyContract, random_data


def strategy(layers: nn.Sequential, example: torch.Tensor, *, length_scale: float = 3.0) -> PosteriorGuided:
    net = gate(layers, example)
    q = KeepDrop(net.space, net.groups)
    optimizer = torch.optim.SGD([*net.parameters(), *q.parameters()], lr=0.05, momentum=0.9)
    return PosteriorGuided(net, q, optimizer, penalty=SpikeSlab(num_data=32, length_scale=length_scale))


class TestTables(StrategyContract):
    def make_batches(self) -> list[Batch]:
        return list(Batches(random_data((4,)), 8).epoch(0))

    def make_strategy(self) -> Strategy:
        return strategy(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), torch.zeros(2, 4))


class TestImages(StrategyContract):
    def make_batches(self) -> list[Batch]:
        return list(Batches(random_data((3, 6, 6)), 8).epoch(0))

    def make_strategy(self) -> Strategy:
        body = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(16, 3)]
        return strategy(nn.Sequential(*body), torch.zeros(2, 3, 6, 6))


def test_the_loss_of_a_step() -> None:
    """The mean loss under one relaxed draw per example, plus the penalty."""
    with global_seed(0, "test"):
        guided = strategy(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), torch.zeros(2, 4))
    batch = TestTables().make_batches()[0]
    first, last = (guided.net.model.get_submodule(name) for name in ("0", "2"))
    with torch.no_grad():
        keep = guided.q.rsample_slices(8, temperature=0.2, generator=generator_at(0, "step"))
        expected = F.cross_entropy(last(keep * torch.relu(first(batch.inputs))), batch.targets)
        expected = expected + guided.penalty(guided.net.square_norms(), guided.q)
    measured = guided.step([batch], generator=generator_at(0, "step"))
    assert math.isclose(measured["loss"], expected.item(), rel_tol=1e-6)
    assert 0 < measured["kept"] < 1


@pytest.mark.parametrize("constant", [None, 0.01])
def test_gradients_are_those_of_loss_and_penalty(constant: float | None) -> None:
    """Also of kernels, whose decay goes past the graph: of one that two layers share, and of one that has no effect."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 5)
            self.second.weight = self.first.weight
            self.head, self.unused = nn.Linear(5, 3), nn.Linear(5, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features = torch.tanh(self.second(torch.tanh(self.first(torch.tanh(self.stem(x))))))
            self.unused(features)
            logits: torch.Tensor = self.head(features)
            return logits

    with global_seed(0, "test"):
        net = gate(Network().double(), torch.zeros(2, 4, dtype=torch.float64))
    q = KeepDrop(net.space, net.groups, drop=0.3).double()
    parameters = [*net.parameters(), *q.parameters()]
    penalty = SpikeSlab(num_data=32, length_scale=3.0, weight_decay=constant)
    guided = PosteriorGuided(net, q, torch.optim.SGD(parameters, lr=0.0), penalty=penalty)
    inputs, targets = TestTables().make_batches()[0]
    inputs = inputs.double()
    keep = q.rsample_slices(len(inputs), temperature=0.2, generator=generator_at(0, "step"))
    whole = F.cross_entropy(net.forward_slices(inputs, keep), targets) + penalty(net.square_norms(), q)
    expected = torch.autograd.grad(whole, parameters, allow_unused=True)
    guided.step([Batch(inputs, targets)], generator=generator_at(0, "step"))
    found = [parameter.grad for parameter in parameters]
    assert sum(gradient is None for gradient in found) == 1  # the bias of the layer without effect
    torch.testing.assert_close(found, list(expected), rtol=1e-10, atol=1e-12)


def test_channels_without_use_are_dropped_and_useful_ones_kept() -> None:
    """Two layers read the same features: one of constant zeros, one that the label is found from."""

    class TwoReaders(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Linear(4, 4)
            self.useless, self.useful = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features = torch.tanh(self.stem(x))
            logits: torch.Tensor = self.useful(features) + 0.0 * self.useless(features)
            return logits

    with global_seed(0, "test"):
        net = gate(TwoReaders(), torch.zeros(2, 4), groups={"useless": ["useless"], "useful": ["useful"]})
    q = KeepDrop(net.space, net.groups)
    guided = PosteriorGuided(
        net, q, torch.optim.Adam([*net.parameters(), *q.parameters()], lr=0.02), penalty=SpikeSlab(512, 2.0)
    )
    (batch,) = Batches(random_data((4,), examples=512, seed=1), 512).epoch(0)
    for position in range(150):
        guided.step([batch], generator=generator_at(0, "step", position))
    useless, useful = q.drop.tolist()
    assert useful < 0.1 < 0.3 < useless


def test_mistakes() -> None:
    guided = strategy(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)), torch.zeros(2, 4))
    other = KeepDrop(guided.net.space, {"all": guided.net.space.choice_names})
    with pytest.raises(InvalidInput, match="over the groups"):
        PosteriorGuided(guided.net, other, guided.optimizer, penalty=guided.penalty)
    with pytest.raises(InvalidInput, match="temperature"):
        PosteriorGuided(guided.net, guided.q, guided.optimizer, penalty=guided.penalty, temperature=0.0)
