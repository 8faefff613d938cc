"""Bayesian linear regression: its evidence, and the bound by the sum of training losses."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch_experiments.training_speed.bayesian_linear import BayesianLinear, multi_sample_bound, sotl_bound
from polyarch_experiments.training_speed.fourier import fourier

MODEL = BayesianLinear(noise=0.7, prior=1.3)
DATA = fourier(30, seed=0, degree=1, max_degree=3, noise=0.7)


def samples(count: int, *, part: int = 1, steps: int = 200) -> Tensor:
    return MODEL.sampled_log_likelihoods(
        *DATA, samples=count, steps=steps, generator=generator_at(0, "samples"), part=part
    )


def test_evidence_is_the_density_of_the_targets() -> None:
    features, targets = DATA.features.double(), DATA.targets.double()
    covariance = 1.3**2 * features @ features.T + 0.7**2 * torch.eye(30, dtype=torch.float64)
    density = torch.distributions.MultivariateNormal(torch.zeros(30, dtype=torch.float64), covariance)
    assert MODEL.log_evidence(*DATA) == pytest.approx(density.log_prob(targets).item(), rel=1e-9)


def test_posterior_is_the_conditional_gaussian() -> None:
    """theta and y are jointly Gaussian: condition by the covariance form, with N x N matrices."""
    features, targets = DATA.features.double(), DATA.targets.double()
    gain = (
        1.3**2
        * features.T
        @ torch.linalg.inv(1.3**2 * features @ features.T + 0.7**2 * torch.eye(30, dtype=torch.float64))
    )
    mean, precision = MODEL.posterior(*DATA)
    assert torch.allclose(mean, gain @ targets, rtol=1e-8)
    covariance = 1.3**2 * (torch.eye(4) - gain @ features)
    assert torch.allclose(torch.linalg.inv(precision), covariance, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("part", [1, 4, 30])
def test_chain_rule(part: int) -> None:
    predictive = MODEL.predictive_log_likelihoods(*DATA, part=part)
    assert len(predictive) == math.ceil(30 / part)
    assert predictive.sum().item() == pytest.approx(MODEL.log_evidence(*DATA), rel=1e-9)


@pytest.mark.parametrize("part", [1, 4, 30])
def test_the_bound_holds_part_by_part(part: int) -> None:
    expected = MODEL.expected_log_likelihoods(*DATA, part=part)
    predictive = MODEL.predictive_log_likelihoods(*DATA, part=part)
    assert (expected < predictive).all()


@pytest.mark.parametrize("part", [1, 7])
def test_samples_have_the_expectation_in_closed_form(part: int) -> None:
    found = samples(4000, part=part)
    expected = MODEL.expected_log_likelihoods(*DATA, part=part)
    errors = found.std(0) / math.sqrt(4000)
    assert ((found.mean(0) - expected).abs() < 4.5 * errors).all()
    bound = sotl_bound(found)
    assert abs(bound.mean().item() - expected.sum().item()) < 4 * bound.std().item() / math.sqrt(4000)


def test_samples_that_are_not_optimised_are_draws_from_the_prior() -> None:
    """With no steps nothing is learned, and the sum of losses is far from the bound."""
    expected = MODEL.expected_log_likelihoods(*DATA).sum().item()
    assert sotl_bound(samples(200, steps=0)).mean().item() < 2 * expected


def test_more_samples_make_the_bound_tighter() -> None:
    evidence = MODEL.log_evidence(*DATA)
    found = samples(4000)
    by_count = {
        k: torch.stack([multi_sample_bound(group) for group in found.split(k)]).mean().item() for k in (1, 10, 100)
    }
    assert by_count[1] == pytest.approx(sotl_bound(found).mean().item(), rel=1e-9)
    assert by_count[1] < by_count[10] < by_count[100] < evidence


def test_what_is_not_a_model() -> None:
    with pytest.raises(InvalidInput, match="above 0"):
        BayesianLinear(noise=0)
    with pytest.raises(InvalidInput, match="1 or more examples"):
        MODEL.expected_log_likelihoods(*DATA, part=0)
