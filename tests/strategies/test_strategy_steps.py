"""What a step of each strategy does, against the same step by hand."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from polyarch.data import Batch
from polyarch.distributions import Categorical, Empirical, geometric_prior
from polyarch.errors import InvalidInput
from polyarch.nn import BatchStatistics
from polyarch.objectives import ExactExpectation, elbo
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, parse_nb201
from polyarch.strategies import OneShot, RandomPaths, Supervised, Variational, measure
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import FullyConnectedDepth, NB201Supernet
from polyarch.testing import random_data, same_bits

DATA = random_data((3, 8, 8), examples=16)
IMAGES = Batch(DATA.inputs, DATA.targets)
TABLE = Batch(random_data((4,), examples=12).inputs, random_data((4,), examples=12).targets)
NUM_DATA = 40
FIRST = "|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|skip_connect~0|nor_conv_3x3~1|none~2|"
SECOND = "|nor_conv_1x1~0|+|nor_conv_1x1~0|nor_conv_3x3~1|+|avg_pool_3x3~0|nor_conv_3x3~1|nor_conv_1x1~2|"


def cell_net() -> NB201Supernet:
    with global_seed(0, "net"):
        return NB201Supernet(channels=2, cells=1, classes=3)


def one_path(net: NB201Supernet, optimizer: torch.optim.Optimizer, text: str) -> tuple[OneShot, Architecture]:
    architecture = parse_nb201(text, net.space)
    return OneShot(net, optimizer, paths=RandomPaths(Empirical(net.space, [architecture]))), architecture


def test_weights_off_the_path_do_not_move() -> None:
    """Also with momentum from earlier steps and with decay; dead operations of the path count as off it."""
    net = cell_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    generator = generator_at(0, "step")
    one_path(net, optimizer, SECOND)[0].step([IMAGES], generator=generator)
    first, architecture = one_path(net, optimizer, FIRST)
    on_path = {name for name, _ in net.extract(architecture).named_parameters()}
    before = copy.deepcopy(net.state_dict())
    first.step([IMAGES], generator=generator)
    for name, parameter in net.named_parameters():
        assert same_bits(parameter, before[name]) == (name not in on_path), name
    assert 0 < len(on_path) < len(list(net.parameters()))


def test_a_single_path_step_by_hand() -> None:
    """w - lr * grad of the loss of the drawn path."""
    net, by_hand = cell_net(), cell_net().train()
    strategy, architecture = one_path(net, torch.optim.SGD(net.parameters(), lr=0.1), FIRST)
    measured = strategy.step([IMAGES], generator=generator_at(0, "step"))
    loss = F.cross_entropy(by_hand(IMAGES.inputs, architecture), IMAGES.targets)
    assert measured == {"loss": loss.item()}
    loss.backward()
    for one, other in zip(net.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(one, other if other.grad is None else other - 0.1 * other.grad)


def test_paths_are_drawn_from_the_generator() -> None:
    net = cell_net()
    strategy = OneShot(net, torch.optim.SGD(net.parameters(), lr=0.0))
    losses = {seed: strategy.step([IMAGES], generator=generator_at(seed, "step"))["loss"] for seed in range(8)}
    assert len(set(losses.values())) > 4


def test_paths_are_evaluated_with_batch_statistics() -> None:
    net = cell_net()
    strategy, architecture = one_path(net, torch.optim.SGD(net.parameters(), lr=0.1), SECOND)
    network = net.extract(architecture)
    BatchStatistics().prepare(network, ())
    expected = F.cross_entropy(network(IMAGES.inputs), IMAGES.targets).item()
    measured = strategy.evaluate([IMAGES], generator=generator_at(0, "evaluate"))
    assert math.isclose(measured["loss"], expected, rel_tol=1e-5)


def test_a_supervised_step_by_hand() -> None:
    with global_seed(0, "net"):
        network = nn.Linear(4, 3)
    by_hand = copy.deepcopy(network)
    strategy = Supervised(network, torch.optim.SGD(network.parameters(), lr=0.1))
    measured = strategy.step([TABLE], generator=generator_at(0, "step"))
    loss = F.cross_entropy(by_hand(TABLE.inputs), TABLE.targets)
    assert measured == {"loss": loss.item()}
    loss.backward()
    for one, other in zip(network.parameters(), by_hand.parameters(), strict=True):
        assert other.grad is not None
        torch.testing.assert_close(one, other - 0.1 * other.grad)


def test_supervised_evaluation_switches_dropout_off() -> None:
    with global_seed(0, "net"):
        network = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.9)).train()
    strategy = Supervised(network, torch.optim.SGD(network.parameters(), lr=0.1))
    measured = strategy.evaluate([TABLE], generator=generator_at(0, "evaluate"))
    logits = network[0](TABLE.inputs)
    assert math.isclose(measured["loss"], F.cross_entropy(logits, TABLE.targets).item(), rel_tol=1e-5)
    assert measured["accuracy"] == (logits.argmax(-1) == TABLE.targets).double().mean().item()


def variational(learning_rate: float = 0.1) -> tuple[FullyConnectedDepth, Categorical, Variational]:
    with global_seed(0, "net"):
        net = FullyConnectedDepth(features=4, classes=3, max_depth=3, width=5)
    q = Categorical(net.space, torch.tensor([0.5, 0.0, -0.5, 1.0]))
    optimizer = torch.optim.SGD([*net.parameters(), *q.parameters()], lr=learning_rate)
    return net, q, Variational(net, q, geometric_prior(net.space, 0.85), optimizer, num_data=NUM_DATA)


def test_a_variational_step_by_hand() -> None:
    """Weights and logits together follow the gradient of the bound divided by -N."""
    net, q, strategy = variational()
    other_net, other_q, other = variational()
    measured = strategy.step([TABLE], generator=generator_at(0, "step"))
    expected = ExactExpectation()(other_net.train(), other_q, TABLE, generator=generator_at(0, "unused"))
    bound = elbo(expected, other_q.kl(other.prior), NUM_DATA)
    assert math.isclose(measured["elbo"], bound.item(), rel_tol=1e-6)
    assert math.isclose(measured["loss"], -bound.item() / NUM_DATA, rel_tol=1e-6)
    assert math.isclose(measured["kl"], other_q.kl(other.prior).item(), rel_tol=1e-6)
    (-bound / NUM_DATA).backward()
    pairs = zip([*net.parameters(), *q.parameters()], [*other_net.parameters(), *other_q.parameters()], strict=True)
    for one, by_hand in pairs:
        assert by_hand.grad is not None and by_hand.grad.any()
        torch.testing.assert_close(one, by_hand - 0.1 * by_hand.grad)


def test_variational_evaluation_is_of_the_mixture() -> None:
    """log sum_a q(a) p(y | x, a), in evaluation mode."""
    net, q, strategy = variational()
    measured = strategy.evaluate([TABLE], generator=generator_at(0, "evaluate"))
    net.eval()
    weights = q.mean()["depth"]
    mixture = sum(
        weight * torch.softmax(net(TABLE.inputs, architecture), -1)
        for weight, architecture in zip(weights, net.space.enumerate(), strict=True)
    )
    assert isinstance(mixture, torch.Tensor)
    rows = torch.arange(len(TABLE.targets))
    assert math.isclose(measured["loss"], -mixture[rows, TABLE.targets].log().mean().item(), rel_tol=1e-5)
    assert measured["accuracy"] == (mixture.argmax(-1) == TABLE.targets).double().mean().item()


def test_training_raises_the_bound() -> None:
    _, q, strategy = variational()
    start = q.logits.detach().clone()
    bounds = [strategy.step([TABLE], generator=generator_at(0, "step", step))["elbo"] for step in range(60)]
    assert bounds[-1] > bounds[0] + 10
    assert not q.logits.equal(start)


def test_no_data_is_a_mistake() -> None:
    net, q, strategy = variational()
    with pytest.raises(InvalidInput, match="1 or more training examples"):
        Variational(net, q, strategy.prior, strategy.optimizer, num_data=0)


def test_measure_weights_batches_by_their_size() -> None:
    logits = torch.randn(5, 3, generator=generator_at(0, "logits"))
    targets = torch.tensor([0, 1, 2, 0, 1])
    means = measure(CLASSES, lambda x: x, [Batch(logits[:4], targets[:4]), Batch(logits[4:], targets[4:])])
    assert math.isclose(means["loss"], F.cross_entropy(logits, targets).item(), rel_tol=1e-6)
    assert means["accuracy"] == (logits.argmax(-1) == targets).double().mean().item()
