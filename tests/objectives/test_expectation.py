"""Exact and sampled expectations: explicit sums, and unbiasedness by enumeration of all draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from polyarch.data import Batch
from polyarch.distributions import ArchDistribution, Categorical, Empirical, FactorisedCategorical, Uniform
from polyarch.errors import InvalidInput
from polyarch.objectives import Exact, Sampled, categorical_log_likelihood, support
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.supernets import ChainSupernet, Supernet

BATCH = Batch(
    torch.randn(6, 1, 3, 3, dtype=torch.float64, generator=generator_at(0, "inputs")), torch.tensor([0, 1, 2, 0, 1, 2])
)


@pytest.fixture
def net() -> Supernet:
    """Two layers of two or three options: six architectures."""
    with global_seed(0, "net"):
        net = ChainSupernet(
            channels=(2, 3), kernels=(3, 5), expansions=(1,), stem_channels=2, head_channels=3, in_channels=1, classes=3
        )
    return net.double().eval()


def joint(net: Supernet) -> ArchDistribution:
    return Categorical(net.space, torch.linspace(-1, 1, net.space.count(), dtype=torch.float64))


def factorised(net: Supernet) -> ArchDistribution:
    logits = {c.name: torch.linspace(0.5, -0.5, len(c), dtype=torch.float64) for c in net.space.choices}
    return FactorisedCategorical(net.space, logits)


def part(net: Supernet) -> ArchDistribution:
    return Empirical(net.space, list(net.space.enumerate())[1:4], [1.0, 2.0, 5.0]).double()


def uniform(net: Supernet) -> ArchDistribution:
    return Uniform(net.space)


every_q = pytest.mark.parametrize("make_q", [joint, factorised, part, uniform])


def test_log_likelihood_of_classes() -> None:
    logits = torch.randn(2, 4, 3, dtype=torch.float64, generator=generator_at(0, "logits"))
    targets = torch.tensor([2, 0, 1, 1])
    values = categorical_log_likelihood(logits, targets)
    assert values.shape == (2, 4)
    for s, b in itertools.product(range(2), range(4)):
        expected = logits[s, b, targets[b]] - logits[s, b].exp().sum().log()
        assert math.isclose(values[s, b].item(), expected.item(), rel_tol=1e-12)
