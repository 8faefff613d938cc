"""Batch statistics under every policy, against statistics computed by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import AdaptedStatistics, BatchStatistics, NormPolicy, ReestimatedStatistics, RunningStatistics
from polyarch.nn.norm_policies import norm_layers
from polyarch.randomness import generator_at
from polyarch.testing import same_bits

WIDTH, BATCHES = 3, 4
START_MEAN, START_VARIANCE = 0.5, 2.0
EPSILON, MOMENTUM = 1e-5, 0.1


def batches() -> list[Tensor]:
    generator = generator_at(0, "inputs")
    return [
        position + (1 + position) * torch.randn(6, WIDTH, dtype=torch.float64, generator=generator)
        for position in range(BATCHES)
    ]


def network() -> nn.Sequential:
    """A network that has been trained for seven steps; dropout would show in its statistics if it were left on."""
    norm = nn.BatchNorm1d(WIDTH, eps=EPSILON, momentum=MOMENTUM, dtype=torch.float64)
    norm.running_mean = torch.full((WIDTH,), START_MEAN, dtype=torch.float64)
    norm.running_var = torch.full((WIDTH,), START_VARIANCE, dtype=torch.float64)
    norm.num_batches_tracked = torch.tensor(7)
    return nn.Sequential(nn.Dropout(0.5), norm).train()


def normalised(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return (x - mean) / (variance + EPSILON).sqrt()


def running(x: Tensor) -> Tensor:
    start = torch.ones(WIDTH, dtype=torch.float64)
    return normalised(x, START_MEAN * start, START_VARIANCE * start)


def of_the_batch(x: Tensor) -> Tensor:
    return normalised(x, x.mean(0), x.var(0, correction=0))


def exponential_average(x: Tensor) -> Tensor:
    mean = torch.full((WIDTH,), START_MEAN, dtype=torch.float64)
    variance = torch.full((WIDTH,), START_VARIANCE, dtype=torch.float64)
    for batch in batches()[:3]:
        mean = (1 - MOMENTUM) * mean + MOMENTUM * batch.mean(0)
        variance = (1 - MOMENTUM) * variance + MOMENTUM * batch.var(0, correction=1)
    return normalised(x, mean, variance)


def plain_average(x: Tensor) -> Tensor:
    used = batches()[:3]
    mean = torch.stack([batch.mean(0) for batch in used]).mean(0)
    variance = torch.stack([batch.var(0, correction=1) for batch in used]).mean(0)
    return normalised(x, mean, variance)


POLICIES = [
    (RunningStatistics(), "running", running),
    (BatchStatistics(), "batch", of_the_batch),
    (AdaptedStatistics(3), "adapt(3)", exponential_average),
    (ReestimatedStatistics(3), "reestimate(3)", plain_average),
]


@pytest.mark.parametrize(("policy", "name", "expected"), POLICIES, ids=[name for _, name, _ in POLICIES])
def test_outputs_by_hand(policy: NormPolicy, name: str, expected: Callable[[Tensor], Tensor]) -> None:
    judged = network()
    weights = copy.deepcopy(list(judged.parameters()))
    policy.prepare(judged, iter(batches()))
    x = 5 + batches()[-1]
    torch.testing.assert_close(judged(x), expected(x), rtol=1e-12, atol=1e-12)
    assert str(policy) == name
    assert same_bits(list(judged.parameters()), weights)
    assert [layer.momentum for layer in norm_layers(judged)] == [MOMENTUM]


@pytest.mark.parametrize("policy", [AdaptedStatistics(BATCHES + 1), ReestimatedStatistics(BATCHES + 1)], ids=str)
def test_too_few_batches_are_not_enough(policy: NormPolicy) -> None:
    with pytest.raises(InvalidInput, match=r"Expected 5 batches of training inputs for the statistics\. Got 4"):
        policy.prepare(network(), batches())


@pytest.mark.parametrize("policy", [AdaptedStatistics, ReestimatedStatistics])
def test_no_batches_are_a_mistake(policy: type[AdaptedStatistics] | type[ReestimatedStatistics]) -> None:
    with pytest.raises(InvalidInput, match="at least 1 batch"):
        policy(0)


def test_statistics_take_no_gradient() -> None:
    judged = network()
    inputs = [batch.requires_grad_() for batch in batches()]
    AdaptedStatistics(3).prepare(judged, inputs)
    assert all(not buffer.requires_grad for buffer in judged.buffers())
    assert all(parameter.grad is None for parameter in judged.parameters())
