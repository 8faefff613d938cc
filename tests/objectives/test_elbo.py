"""The evidence lower bound against its closed forms and finite differences, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from polyarch.data import Batch
from polyarch.distributions import (
    ArchDistribution,
    Categorical,
    Empirical,
    FactorisedCategorical,
    Uniform,
    geometric_prior,
)
from polyarch.objectives import ExactExpectation, categorical_log_likelihood, elbo, log_posterior
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Space
from polyarch.supernets import ChainSupernet, FullyConnectedDepth, Supernet

EXAMPLES, NUM_DATA = 12, 30
GENERATOR = generator_at(0, "unused")


def depth_net() -> Supernet:
    with global_seed(0, "net"):
        return FullyConnectedDepth(features=4, classes=3, max_depth=4, width=5).double().eval()


def chain_net() -> Supernet:
    with global_seed(0, "net"):
        net = ChainSupernet(
            channels=(2, 2), kernels=(3,), expansions=(1,), stem_channels=2, head_channels=3, in_channels=1
        )
    with torch.no_grad():
        for name, parameter in net.double().named_parameters():  # zeros would sit on the kink of ReLU
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator_at(0, "weights", name)))
    return net.eval()


def make_batch() -> Batch:
    inputs = torch.randn(EXAMPLES, 1, 2, 2, dtype=torch.float64, generator=generator_at(0, "inputs"))
    return Batch(inputs, torch.arange(EXAMPLES) % 3)


def log_likelihoods(net: Supernet) -> Tensor:
    """log p(D | a) of every architecture, for a data set of NUM_DATA examples of which the batch is a part."""
    batch = make_batch()
    with torch.no_grad():
        sums = [categorical_log_likelihood(net(batch.inputs, a), batch.targets).sum() for a in net.space.enumerate()]
    return torch.stack(sums) * NUM_DATA / EXAMPLES


def bound(net: Supernet, q: ArchDistribution, prior: ArchDistribution) -> Tensor:
    return elbo(ExactExpectation()(net, q, make_batch(), generator=GENERATOR), q.kl(prior), NUM_DATA)


def test_the_maximised_bound_is_the_evidence() -> None:
    """At q = softmax(log-likelihood + log prior) the bound is tight."""
    net = depth_net()
    prior = geometric_prior(net.space, 0.85).double()
    log_prior = prior.log_prob(list(net.space.enumerate()))
    values = log_likelihoods(net)
    evidence = torch.logsumexp(values + log_prior, 0)
    torch.testing.assert_close(evidence, (values.exp() * log_prior.exp()).sum().log(), rtol=1e-12, atol=0)
    best = Categorical(net.space, log_posterior(values, log_prior))
    torch.testing.assert_close(bound(net, best, prior), evidence, rtol=1e-12, atol=1e-12)


def test_gradient_ascent_reaches_the_evidence_from_below() -> None:
    net = depth_net()
    prior = geometric_prior(net.space, 0.85).double()
    log_prior = prior.log_prob(list(net.space.enumerate()))
    evidence = torch.logsumexp(log_likelihoods(net) + log_prior, 0).item()
    q = Categorical(net.space).double()
    optimizer = torch.optim.SGD(q.parameters(), lr=0.5)
    values = []
    for _ in range(1000):
        optimizer.zero_grad()
        value = bound(net, q, prior)
        (-value).backward()
        optimizer.step()
        values.append(value.item())
    assert max(values) <= evidence + 1e-12
    assert math.isclose(values[-1], evidence, abs_tol=1e-7)
    posterior = log_posterior(log_likelihoods(net), log_prior)
    torch.testing.assert_close(q.log_probabilities().detach(), posterior, atol=1e-3, rtol=0)


def test_the_bound_by_hand() -> None:
    """N/B sum_n sum_i alpha_i log p(y_n | x_n, i) - sum_i alpha_i log(alpha_i / beta_i)."""
    net = depth_net()
    q = Categorical(net.space, torch.tensor([0.1, -0.4, 0.7, 0.0, 0.3], dtype=torch.float64))
    prior = geometric_prior(net.space, 0.5).double()
    alpha, beta = torch.softmax(q.logits.detach(), 0), prior.mean()["depth"]
    expected = (alpha * log_likelihoods(net)).sum() - (alpha * (alpha / beta).log()).sum()
    torch.testing.assert_close(bound(net, q, prior).detach(), expected, rtol=1e-10, atol=1e-10)


def joint(net: Supernet) -> ArchDistribution:
    logits = torch.randn(net.space.count(), dtype=torch.float64, generator=generator_at(0, "logits"))
    return Categorical(net.space, logits)


def factorised(net: Supernet) -> ArchDistribution:
    generator = generator_at(0, "logits")
    logits = {c.name: torch.randn(len(c), dtype=torch.float64, generator=generator) for c in net.space.choices}
    return FactorisedCategorical(net.space, logits)


@pytest.mark.parametrize("make_net", [depth_net, chain_net])
@pytest.mark.parametrize("make_q", [joint, factorised])
def test_gradient_by_central_differences(
    make_net: Callable[[], Supernet], make_q: Callable[[Supernet], ArchDistribution]
) -> None:
    """Along random directions in the space of all weights and logits together."""
    net = make_net()
    q, step = make_q(net), 1e-6
    prior = Categorical(net.space, torch.linspace(-1, 1, net.space.count(), dtype=torch.float64), learnable=False)
    parameters = [*net.parameters(), *q.parameters()]
    gradients = torch.autograd.grad(bound(net, q, prior), parameters, allow_unused=True)
    for attempt in range(4):
        generator = generator_at(attempt, "direction")
        direction = [torch.randn(p.shape, dtype=p.dtype, generator=generator) for p in parameters]
        slope = sum((g * d).sum().item() for g, d in zip(gradients, direction, strict=True) if g is not None)
        values = []
        for move in (step, -step):
            with torch.no_grad():
                for parameter, d in zip(parameters, direction, strict=True):
                    parameter.add_(d, alpha=move)
                values.append(bound(net, q, prior).item())
                for parameter, d in zip(parameters, direction, strict=True):
                    parameter.sub_(d, alpha=move)
        assert math.isclose(slope, (values[0] - values[1]) / (2 * step), rel_tol=1e-5)


@pytest.mark.parametrize("make_prior", [Uniform, lambda space: Empirical(space, list(space.enumerate()))])
def test_a_uniform_prior_leaves_the_entropy(make_prior: Callable[[Space], ArchDistribution]) -> None:
    net = depth_net()
    q, prior = joint(net), make_prior(net.space)
    expected = NUM_DATA * ExactExpectation()(net, q, make_batch(), generator=GENERATOR) + q.entropy() - math.log(5)
    torch.testing.assert_close(bound(net, q, prior), expected, rtol=1e-6, atol=1e-6)
