from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
import torch
from torch import Generator, Tensor, nn

from polyarch.data import Batches, load, resident, stratified_split
from polyarch.estimators import ValAcc, ValAccMini
from polyarch.nn import AdaptedStatistics, BatchStatistics, NormPolicy, ReestimatedStatistics, RunningStatistics
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.strategies import OneShot
from polyarch.supernets import NB201Supernet
from polyarch.training import fit

ADAPTATION = 3
TRAIN_DATA, VALID_DATA = stratified_split(resident(load("digits").train.subset(range(300))), 0.4, seed=0)
TRAIN = Batches(TRAIN_DATA, 32, seed=2)
VALID = Batches(VALID_DATA, 50, shuffle=False)  # the last batch is smaller


@pytest.fixture(scope="module")
def net() -> NB201Supernet:
    """Trained a little, so that its running statistics mix paths."""
    with global_seed(0, "weights"):
        net = NB201Supernet(channels=4, cells=1, in_channels=1)
    fit(OneShot(net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)), TRAIN, epochs=6, seed=0)
    return net


@pytest.fixture(scope="module")
def architectures(net: NB201Supernet) -> list[Architecture]:
    return [net.space.sample(generator_at(1, "architecture", index)) for index in range(4)]


def batch_norms(net: nn.Module) -> Iterator[nn.BatchNorm2d]:
    return (layer for layer in net.modules() if isinstance(layer, nn.BatchNorm2d))


def running(net: NB201Supernet, architecture: Architecture) -> None:
    net.eval()


def batch(net: NB201Supernet, architecture: Architecture) -> None:
    net.train()  # there is nothing but batch normalisation that the mode changes


def adapted(net: NB201Supernet, architecture: Architecture) -> None:
    net.train()
    for inputs, _ in islice(TRAIN.epoch(0), ADAPTATION):
        net(inputs, architecture)
    net.eval()


def reestimated(net: NB201Supernet, architecture: Architecture) -> None:
    for layer in batch_norms(net):
        layer.reset_running_stats()
        layer.momentum = None
    adapted(net, architecture)


BY_HAND: list[tuple[NormPolicy, Callable[[NB201Supernet, Architecture], None]]] = [
    (RunningStatistics(), running),
    (BatchStatistics(), batch),
    (AdaptedStatistics(ADAPTATION), adapted),
    (ReestimatedStatistics(ADAPTATION), reestimated),
]


@torch.no_grad()
def accuracy_by_hand(
    net: NB201Supernet,
    architecture: Architecture,
    prepare: Callable[[NB201Supernet, Architecture], None],
    batches: int | None = None,
) -> float:
    """On a copy of the whole supernet, without extraction."""
    net = copy.deepcopy(net)
    prepare(net, architecture)
    correct = count = 0
    for inputs, targets in islice(VALID.epoch(0), batches):
        correct += int((net(inputs, architecture).argmax(1) == targets).sum())
        count += len(targets)
    return correct / count


@pytest.mark.parametrize(("policy", "prepare"), BY_HAND, ids=[str(policy) for policy, _ in BY_HAND])
def test_accuracy_under_every_policy(
    net: NB201Supernet,
    architectures: list[Architecture],
    policy: NormPolicy,
    prepare: Callable[[NB201Supernet, Architecture], None],
) -> None:
    for architecture in architectures:
        expected = accuracy_by_hand(net, architecture, prepare)
        assert ValAcc(VALID, TRAIN, policy=policy).score(net, architecture) == expected


def test_policies_differ(net: NB201Supernet, architectures: list[Architecture]) -> None:
    scores = {
        str(policy): tuple(ValAcc(VALID, TRAIN, policy=policy).score(net, a) for a in architectures)
        for policy, _ in BY_HAND
    }
    assert len(set(scores.values())) == len(BY_HAND)
    assert max(scores["reestimate(3)"]) > max(scores["running"])


def test_adapted_with_twenty_batches_by_default() -> None:
    assert ValAcc(VALID, TRAIN).policy == ValAccMini(VALID, TRAIN).policy == "adapt(20)"


def noted(drawn: list[Tensor]) -> Batches:
    """The validation batches, noted when they are drawn."""

    def note(inputs: Tensor, generator: Generator) -> Tensor:
        drawn.append(inputs)
        return inputs

    return Batches(VALID_DATA, 50, shuffle=False, augmentations=[note])


def test_mini_uses_the_first_batch_only(net: NB201Supernet, architectures: list[Architecture]) -> None:
    drawn: list[Tensor] = []
    mini = ValAccMini(noted(drawn), TRAIN, policy=RunningStatistics())
    for architecture in architectures:
        drawn.clear()
        assert mini.score(net, architecture) == accuracy_by_hand(net, architecture, running, 1)
        assert torch.equal(torch.cat(drawn), VALID_DATA.inputs[:50])


def test_whole_validation_set_by_default(net: NB201Supernet, architectures: list[Architecture]) -> None:
    drawn: list[Tensor] = []
    ValAcc(noted(drawn), TRAIN, policy=RunningStatistics()).score(net, architectures[0])
    assert torch.equal(torch.cat(drawn), VALID_DATA.inputs)
