"""The network of uniform width: every layer keeps the same share of its channels, wherever they are read."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from polyarch.networks import DenseNet, MultiBranchResNet
from polyarch.nn import multiply_accumulates
from polyarch.supernets import gate, probe, uniform_width

SHAPE = (3, 8, 8)


def test_a_chain_gets_narrower_in_every_layer() -> None:
    """Widths 8 and 12 at the half: 4 and 6, with flattened features of the same channels."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 5),
    )  # fmt: skip
    half = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 5),
    )  # fmt: skip
    net = gate(model, probe(SHAPE))
    found = uniform_width(net, multiply_accumulates(half, SHAPE))
    assert found.width == pytest.approx(0.5, abs=1e-4)
    shapes = [tuple(parameter.shape) for parameter in net.extract(found.architecture).parameters()]
    assert shapes == [tuple(parameter.shape) for parameter in half.parameters()]


@pytest.mark.parametrize("family", [MultiBranchResNet, DenseNet])
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_as_many_operations_as_allowed(family: type[MultiBranchResNet] | type[DenseNet], share: float) -> None:
    """A little more width would be too much, and what reads a stream reads the same channels of it.

    The classifier of a DenseNet, which has no gate, reads all channels of layers that others read in part.
    """
    model = family()
    net = gate(model, probe(SHAPE), groups=model.gate_groups())
    whole = net.cost(net.whole()).macs
    found = uniform_width(net, share * whole)
    macs = net.cost(found.architecture).macs
    assert macs <= share * whole < net.cost(uniform_width(net, share * whole * 1.3).architecture).macs
    assert multiply_accumulates(net.extract(found.architecture), SHAPE) == macs
    network = net.extract(found.architecture)
    assert any(name.startswith("_taken") for name, _ in network.named_buffers()) == (family is DenseNet)


def test_the_ends() -> None:
    net = gate(nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 3)), torch.zeros(2, 4))
    assert uniform_width(net, 1e9).architecture == net.whole()
    assert net.notation(uniform_width(net, 0).architecture) == "1" + 9 * "0"
