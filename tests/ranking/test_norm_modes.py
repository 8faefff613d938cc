"""Accuracies under both modes of batch normalisation, against a loop by hand."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from polyarch.data import Batches
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at, global_seed
from polyarch.ranking import norm_modes
from polyarch.spaces import Architecture
from polyarch.strategies import OneShot
from polyarch.supernets import NB201Supernet
from polyarch.testing import random_data, same_bits, state_of
from polyarch.training import fit


def made() -> NB201Supernet:
    with global_seed(0, "network"):
        return NB201Supernet(channels=2, cells=1, classes=3, operations=("none", "skip_connect", "nor_conv_1x1"))


def trained() -> NB201Supernet:
    """Far from converged, so that architectures and modes differ."""
    net = made()
    strategy = OneShot(net, torch.optim.SGD(net.parameters(), lr=0.1))
    fit(strategy, Batches(random_data((3, 8, 8), examples=48), 8), epochs=2, seed=0)
    return net


def accuracy(net: NB201Supernet, architecture: Architecture, batches: Batches, *, training: bool) -> float:
    network = net.extract(architecture).train(training)
    with torch.no_grad():
        right = [network(x).argmax(-1) == y for x, y in batches.epoch(0)]
    return torch.cat(right).double().mean().item()


def test_against_a_loop() -> None:
    net, valid = trained(), Batches(random_data((3, 8, 8), examples=36, seed=1), 12)
    generator = generator_at(0, "architectures")
    architectures = [net.space.sample(generator) for _ in range(6)]
    before = state_of(net)
    found = norm_modes(net, architectures, valid)
    assert same_bits(state_of(net), before)
    assert found.batch == pytest.approx([accuracy(net, a, valid, training=True) for a in architectures])
    assert found.running == pytest.approx([accuracy(net, a, valid, training=False) for a in architectures])
    assert found.batch != found.running
    assert found.spearman == pytest.approx(stats.spearmanr(found.batch, found.running).statistic)


def test_the_same_architecture_has_no_order() -> None:
    net, valid = made(), Batches(random_data((3, 8, 8), examples=12), 12)
    architecture = net.space.sample(generator_at(0, "architecture"))
    assert norm_modes(net, [architecture] * 3, valid).spearman is None
    with pytest.raises(InvalidInput, match="Expected 3 or more architectures"):
        norm_modes(net, [architecture] * 2, valid)
