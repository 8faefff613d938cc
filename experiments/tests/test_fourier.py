"""Points of a Fourier series."""

from __future__ import annotations

import pytest
import torch

from polyarch.errors import InvalidInput
from polyarch_experiments.training_speed.fourier import fourier


def test_targets_are_the_sum_of_the_first_features() -> None:
    features, targets = fourier(500, seed=0, degree=3, max_degree=7)
    assert features.shape == (500, 8) and features.dtype == targets.dtype == torch.float32
    assert torch.allclose(targets, features[:, :4].sum(1), atol=1e-5)
    assert torch.equal(features[:, 0], torch.ones(500))
    assert features.abs().max() <= 2**0.5 + 1e-6


def test_features_are_of_one_size_and_uncorrelated() -> None:
    features = fourier(20_000, seed=1, max_degree=4).features
    assert torch.allclose(features.T @ features / 20_000, torch.eye(5), atol=0.03)


def test_features_are_cosines_and_sines_of_the_same_point() -> None:
    """phi_1^2 = 1 + sin(4 pi x) and phi_2 = cos(4 pi x) + sin(4 pi x)."""
    _, first, second = fourier(200, seed=0, degree=1, max_degree=2).features.double().T
    sine = first**2 - 1
    assert torch.allclose((second - sine) ** 2, 1 - sine**2, atol=1e-5)


def test_draws_depend_on_seed_and_stream() -> None:
    one = fourier(10, seed=0)
    assert torch.equal(one.features, fourier(10, seed=0).features)
    assert not torch.equal(one.features, fourier(10, seed=1).features)
    assert not torch.equal(one.features, fourier(10, seed=0, stream="test").features)


def test_noise_is_added_to_the_same_points() -> None:
    clean, noisy = (fourier(5000, seed=0, noise=noise) for noise in (0.0, 0.5))
    assert torch.equal(clean.features, noisy.features)
    assert (noisy.targets - clean.targets).std().item() == pytest.approx(0.5, rel=0.05)


def test_impossible_series() -> None:
    with pytest.raises(InvalidInput, match="degree from 0 to 2"):
        fourier(10, seed=0, degree=3, max_degree=2)
    with pytest.raises(InvalidInput, match="Expected points"):
        fourier(0, seed=0)
