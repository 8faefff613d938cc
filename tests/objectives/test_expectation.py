"""Exact and sampled expectations: explicit sums, and unbiasedness by enumeration of all draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from polyarch.data import Batch
from polyarch.distributions import ArchDistribution, Categorical, Empirical, FactorisedCategorical, Uniform
from polyarch.errors import InvalidInput
from polyarch.objectives import (
    ExactExpectation,
    SampledExpectation,
    categorical_log_likelihood,
    marginal_log_probabilities,
    support,
)
from polyarch.randomness import generator_at, global_seed
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


MakeQ = Callable[[Supernet], ArchDistribution]
every_q = pytest.mark.parametrize("make_q", [joint, factorised, part, uniform])


def test_log_likelihood_of_classes() -> None:
    logits = torch.randn(2, 4, 3, dtype=torch.float64, generator=generator_at(0, "logits"))
    targets = torch.tensor([2, 0, 1, 1])
    values = categorical_log_likelihood(logits, targets)
    assert values.shape == (2, 4)
    for s, b in itertools.product(range(2), range(4)):
        expected = logits[s, b, targets[b]] - logits[s, b].exp().sum().log()
        assert math.isclose(values[s, b].item(), expected.item(), rel_tol=1e-12)


@every_q
def test_exact_is_the_explicit_sum(net: Supernet, make_q: MakeQ) -> None:
    q = make_q(net)
    expected = torch.zeros((), dtype=torch.float64)
    for architecture in net.space.enumerate():
        log_probs = torch.log_softmax(net(BATCH.inputs, architecture), -1)
        mean = log_probs[torch.arange(len(BATCH.targets)), BATCH.targets].mean()
        expected = expected + q.log_prob([architecture]).exp().double()[0] * mean
    value = ExactExpectation()(net, q, BATCH, generator=generator_at(0, "unused"))
    torch.testing.assert_close(value, expected, rtol=1e-6 if make_q is uniform else 1e-12, atol=0)


@every_q
def test_the_marginal_is_the_explicit_mixture(net: Supernet, make_q: MakeQ) -> None:
    q = make_q(net)
    shares = [q.log_prob([architecture]).exp().double() for architecture in net.space.enumerate()]
    outputs = [net(BATCH.inputs, architecture).softmax(-1) for architecture in net.space.enumerate()]
    expected = sum(share * output for share, output in zip(shares, outputs, strict=True))
    torch.testing.assert_close(
        marginal_log_probabilities(net, q, BATCH.inputs).exp(),
        expected,
        rtol=1e-6 if make_q is uniform else 1e-12,
        atol=0,
    )


@every_q
def test_support_is_what_can_be_drawn(net: Supernet, make_q: MakeQ) -> None:
    q = make_q(net)
    possible = [a for a in net.space.enumerate() if q.log_prob([a]).item() > -math.inf]
    assert set(support(q)) == set(possible)
    assert len(support(q)) == len(possible)


def gradients(value: Tensor, net: Supernet, q: ArchDistribution) -> list[Tensor]:
    """With respect to every weight and logit, zeros where nothing arrives."""
    parameters = [*net.parameters(), *q.parameters()]
    return list(torch.autograd.grad(value, parameters, materialize_grads=True))


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("make_q", [joint, factorised, part])
def test_sampled_value_and_gradient_are_unbiased(
    net: Supernet, make_q: MakeQ, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The average over all S-tuples of draws, weighted by their probability, is the exact value and gradient."""
    q = make_q(net)
    exact = ExactExpectation()(net, q, BATCH, generator=generator_at(0, "unused"))
    exact_gradients = gradients(exact, net, q)
    value, average = 0.0, [torch.zeros_like(gradient) for gradient in exact_gradients]
    for draws in itertools.product(support(q), repeat=samples):
        monkeypatch.setattr(q, "sample", lambda n, *, generator, draws=draws: list(draws[:n]))
        probability = q.log_prob(draws).sum().exp().item()
        estimate = SampledExpectation(samples)(net, q, BATCH, generator=generator_at(0, "unused"))
        value += probability * estimate.item()
        for total, gradient in zip(average, gradients(estimate, net, q), strict=True):
            total += probability * gradient
    assert math.isclose(value, exact.item(), rel_tol=1e-12)
    torch.testing.assert_close(average, exact_gradients, rtol=1e-9, atol=1e-12)


def test_the_baseline_lowers_the_variance(net: Supernet) -> None:
    """The gradient of two draws varies less than the mean of two independent ones with one draw each."""
    q = joint(net)

    def variance(expectation: SampledExpectation, repeats: int) -> float:
        generator = generator_at(0, "draws")
        rows = [
            torch.stack(
                [gradients(expectation(net, q, BATCH, generator=generator), net, q)[-1] for _ in range(repeats)]
            ).mean(0)
            for _ in range(150)
        ]
        return float(torch.stack(rows).var(0).sum())

    assert variance(SampledExpectation(2), 1) < 0.5 * variance(SampledExpectation(1), 2)


def test_draws_come_from_the_generator(net: Supernet) -> None:
    q = joint(net)
    first, again, other = (
        SampledExpectation(3)(net, q, BATCH, generator=generator_at(s, "draws")).item() for s in (0, 0, 1)
    )
    assert first == again != other


def test_no_draws_are_a_mistake() -> None:
    with pytest.raises(InvalidInput, match="1 or more samples"):
        SampledExpectation(0)
