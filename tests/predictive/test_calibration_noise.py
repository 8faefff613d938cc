"""The noise of calibration errors: against a closed form, and by coverage of simulated predictors."""

from __future__ import annotations

import math

import pytest
import torch

from polyarch.errors import InvalidInput
from polyarch.predictive import calibration_error, calibration_noise
from polyarch.predictive.calibration_noise import noise_of
from polyarch.randomness import generator_at


def binomial_deviation(count: int, p: float) -> float:
    """E|X - np| of X ~ Binomial(n, p), by de Moivre's formula."""
    least = math.floor(count * p) + 1
    return 2 * least * math.comb(count, least) * p**least * (1 - p) ** (count - least + 1)


def test_the_floor_of_one_confidence_is_the_mean_deviation_of_a_binomial() -> None:
    confidence, right = torch.full((200,), 0.8, dtype=torch.float64), torch.ones(200)
    found = noise_of(confidence, right, resamples=4000)
    expected = binomial_deviation(200, 0.8) / 200
    assert found.floor == pytest.approx(expected, rel=0.04)  # 4,000 resamples: a standard error of 1.2 %
    assert (found.error, found.low, found.high) == pytest.approx((0.2, 0.2, 0.2))  # all resamples are the same


def test_floors_of_bins_add_up() -> None:
    """Two bins of 50 examples: each has its own deviation, weighted by its share."""
    confidence = torch.cat([torch.full((50,), 0.55), torch.full((50,), 0.95)])
    found = noise_of(confidence, torch.ones(100), resamples=4000)
    assert found.floor == pytest.approx((binomial_deviation(50, 0.55) + binomial_deviation(50, 0.95)) / 100, rel=0.04)


def test_the_error_is_that_of_the_metric() -> None:
    generator = generator_at(0, "predictions")
    probabilities = torch.softmax(2 * torch.randn(300, 5, dtype=torch.float64, generator=generator), 1)
    labels = torch.randint(5, (300,), generator=generator)
    found = calibration_noise(probabilities, labels)
    assert found.error == pytest.approx(calibration_error(probabilities, labels), abs=1e-12)
    assert found == calibration_noise(probabilities, labels)  # chance is seeded
    assert found.error > found.high - found.low and found.low > found.floor  # labels are not what was predicted


def test_a_perfect_predictor_is_at_its_floor_and_an_overconfident_one_above() -> None:
    """Over 40 draws of a thousand labels, the error of the perfect one averages to the floor."""
    generator = generator_at(0, "labels")
    probabilities = torch.softmax(1.5 * torch.randn(1000, 10, dtype=torch.float64, generator=generator), 1)
    sharper = torch.softmax(2 * probabilities.log(), 1)
    errors = []
    for _ in range(40):
        labels = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
        errors.append(calibration_error(probabilities, labels))
    found = calibration_noise(probabilities, labels)
    assert 0.02 < found.floor < 0.05
    assert sum(errors) / 40 == pytest.approx(found.floor, rel=0.1)
    assert calibration_noise(sharper, labels).low > 3 * found.floor


@pytest.mark.parametrize(("bins", "resamples", "count"), [(0, 10, 3), (15, 1, 3), (15, 10, 2), (15, 10, 0)])
def test_what_cannot_be_resampled_is_refused(bins: int, resamples: int, count: int) -> None:
    with pytest.raises(InvalidInput, match="Expected 1 or more bins"):
        noise_of(torch.full((3 if count else 0,), 0.5), torch.ones(count), bins=bins, resamples=resamples)
