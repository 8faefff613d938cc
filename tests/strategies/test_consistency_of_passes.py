"""Learning from unlabelled examples: the contract, the loss and its gradient by hand, the ramp, the random passes."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from polyarch.data import Batch, Batches
from polyarch.distributions import Empirical, Uniform
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import Consistency, DrawUnit, DropoutPass, RandomPass, Strategy, WiringPass
from polyarch.supernets import MLPSupernet, NB201Supernet
from polyarch.testing import StrategyContract, random_data, same_bits
from polyarch.training import fit


def cells() -> tuple[NB201Supernet, Empirical]:
    """A small supernet, and three of its architectures."""
    net = NB201Supernet(channels=2, cells=1, classes=3, operations=("skip_connect", "nor_conv_1x1"))
    generator = generator_at(0, "architectures")
    return net, Empirical(net.space, [net.space.sample(generator) for _ in range(3)])


def perceptron(rate: float = 0.5) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(rate), nn.Linear(8, 3))


def sgd(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-2)


class TestWiringsPerExample(StrategyContract):
    draws: DrawUnit = "example"

    def make_batches(self) -> list[Batch]:
        return list(Batches(random_data((3, 8, 8)), 8).epoch(0))

    def make_strategy(self) -> Strategy:
        net, q = cells()
        return Consistency(WiringPass(net, q, draws=self.draws), sgd(net), weight=2.0, ramp_steps=10)


class TestWiringsPerBatch(TestWiringsPerExample):
    draws: DrawUnit = "batch"


class TestDropout(StrategyContract):
    def make_batches(self) -> list[Batch]:
        return list(Batches(random_data((4,)), 8).epoch(0))

    def make_strategy(self) -> Strategy:
        network = perceptron()
        return Consistency(DropoutPass(network), sgd(network), weight=2.0, ramp_steps=10)


class Scaled(RandomPass):
    """Call i gives i + 1 times the logits, in place of chance."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.calls: list[Tensor] = []

    def logits(self, inputs: Tensor, generator: Generator) -> Tensor:
        self.calls.append(inputs)
        output: Tensor = self.module(inputs)
        return len(self.calls) * output


def linear_batches() -> tuple[Batch, Batch]:
    generator = generator_at(0, "batches")
    x, u = (torch.randn(size, 4, dtype=torch.float64, generator=generator) for size in (5, 8))
    return Batch(x, torch.arange(5) % 3), Batch(u, torch.zeros(8, dtype=torch.int64))


def linear() -> nn.Linear:
    with global_seed(0, "linear"):
        return nn.Linear(4, 3).double()


def test_loss_and_gradient_by_hand() -> None:
    """First the labelled batch with one view u, then the other v without gradient, here with logits f and 2 f."""
    (x, y), unlabelled = linear_batches()
    u, v = unlabelled.inputs[:4], unlabelled.inputs[4:]
    module, twin = linear(), linear()
    passes = Scaled(module)
    strategy = Consistency(passes, torch.optim.SGD(module.parameters(), lr=0.1), weight=4.0, ramp_steps=0)
    measured = strategy.step([Batch(x, y)], [unlabelled], generator=generator_at(0, "step"))

    assert [same_bits(call, part) for call, part in zip(passes.calls, (torch.cat([x, u]), v), strict=True)] == [
        True
    ] * 2
    supervised = F.cross_entropy(twin(x), y)
    squares = (twin(u) - 2 * twin(v).detach()).square().sum() / (4 * 3)
    assert measured["supervised_loss"] == pytest.approx(supervised.item(), rel=1e-12)
    assert measured["distance"] == pytest.approx(squares.item(), rel=1e-12)
    assert measured["loss"] == pytest.approx(supervised.item() + 4 * squares.item(), rel=1e-12)
    (supervised + 4 * squares).backward()
    for parameter, other in zip(module.parameters(), twin.parameters(), strict=True):
        assert other.grad is not None
        torch.testing.assert_close(parameter.detach(), other.detach() - 0.1 * other.grad, rtol=1e-12, atol=1e-14)


def test_the_ramp() -> None:
    batch, unlabelled = linear_batches()
    module = linear()
    strategy = Consistency(Scaled(module), torch.optim.SGD(module.parameters(), lr=0.0), weight=3.0, ramp_steps=4)
    ramps = []
    for step in range(6):
        ramps.append(strategy.ramp())
        measured = strategy.step([batch], [unlabelled], generator=generator_at(0, "step", step))
        weight = (measured["loss"] - measured["supervised_loss"]) / measured["distance"]
        assert weight == pytest.approx(3 * ramps[-1], rel=1e-9)
    expected = [math.exp(-5), math.exp(-5 * 9 / 16), math.exp(-5 / 4), math.exp(-5 / 16), 1.0, 1.0]
    assert ramps == pytest.approx(expected, rel=1e-12)


def test_targets_of_unlabelled_examples_are_ignored() -> None:
    def trained(shift: int) -> object:
        with global_seed(0, "network"):
            network = perceptron()
        strategy = Consistency(DropoutPass(network), sgd(network), ramp_steps=0)
        train, *others = Batches(random_data((4,)), 8).epoch(0)
        unlabelled = Batch(others[0].inputs, (others[0].targets + shift) % 3)
        strategy.step([train], [unlabelled], generator=generator_at(0, "step"))
        return network.state_dict()

    assert same_bits(trained(0), trained(1))


def rows_of(net: NB201Supernet, q: Empirical, x: Tensor, logits: Tensor) -> list[set[int]]:
    """For every example the architectures that could have given its logits."""
    by_hand = net.forward_many(x, q.architectures)  # (A, B, C)
    same = (by_hand - logits).abs().amax(-1) < 1e-10  # (A, B)
    return [set(column.nonzero().flatten().tolist()) for column in same.T]


def test_wirings_per_example_and_per_batch() -> None:
    with global_seed(0, "network"), torch.no_grad():
        net, q = cells()
        net = net.double().eval()
        x = random_data((3, 8, 8), examples=24).inputs.double()
        generator = generator_at(0, "draws")
        each = rows_of(net, q, x, WiringPass(net, q).logits(x, generator))
        assert all(len(found) == 1 for found in each)  # so the three can be told apart
        assert set.union(*each) == {0, 1, 2}
        shared = [rows_of(net, q, x, WiringPass(net, q, draws="batch").logits(x, generator)) for _ in range(12)]
        assert all(len(set.intersection(*batch)) == 1 for batch in shared)
        assert {min(batch[0]) for batch in shared} == {0, 1, 2}


@pytest.mark.parametrize("kind", ["wirings", "dropout"])
def test_training_makes_passes_agree(kind: str) -> None:
    """Distances end below those of training without the second term."""
    batches = Batches(random_data((4,)), 16)

    def last_distance(weight: float) -> float:
        with global_seed(0, "network"):
            if kind == "wirings":
                net = MLPSupernet(features=4, classes=3, width=4, max_depth=2, inner_widths=(2, 3))
                passes: RandomPass = WiringPass(net, Uniform(net.space))
            else:
                passes = DropoutPass(perceptron())
        optimizer = torch.optim.SGD(passes.module.parameters(), lr=0.05)
        strategy = Consistency(passes, optimizer, weight=weight, ramp_steps=4)
        history = fit(strategy, batches, batches, epochs=8, seed=0, held_out=batches)
        assert history.last["valid_accuracy"] >= 0
        return history["distance"][-1]

    assert last_distance(5.0) < 0.7 * last_distance(0.0)


def test_fit_asks_for_unlabelled_examples() -> None:
    network = perceptron()
    batches = Batches(random_data((4,)), 8)
    with pytest.raises(InvalidInput, match="Expected held-out data for Consistency"):
        fit(Consistency(DropoutPass(network), sgd(network), ramp_steps=0), batches, epochs=1, seed=0)


def test_what_does_not_fit() -> None:
    with pytest.raises(InvalidInput, match="dropout layers of p above 0"):
        DropoutPass(perceptron(rate=0.0))
    passes = DropoutPass(perceptron())
    for weight, steps in ((-1.0, 0), (math.inf, 0), (math.nan, 0), (1.0, -1)):
        with pytest.raises(InvalidInput, match="finite weight of 0 or more"):
            Consistency(passes, sgd(passes.module), weight=weight, ramp_steps=steps)
