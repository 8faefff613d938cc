"""Conformal intervals: the guarantee by simulation, closed forms, round trips and refusals."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import Tensor

from polyarch.errors import InvalidInput, UnknownName
from polyarch.predictive import (
    ConformalIntervals,
    GaussianMixture,
    IntervalMethod,
    fit_intervals,
    interval_coverage,
    interval_width,
)
from polyarch.randomness import generator_at

METHODS: tuple[IntervalMethod, ...] = ("scaled", "quantile")


def wrong_predictions(examples: int, targets: int, stream: str) -> tuple[GaussianMixture, Tensor]:
    """Targets with heavy tails and a variance that depends on x, and two members that are biased and too sure."""
    generator = generator_at(0, stream)
    x = torch.randn(examples, targets, generator=generator, dtype=torch.float64)
    noise = torch.randn(3, examples, targets, generator=generator, dtype=torch.float64)
    y = x.sin() + (0.2 + x.abs()) * noise[0] / (noise[1].square() + noise[2].square()).sqrt()  # Student, 2 degrees
    means = torch.stack([0.5 * x, x.sin() + 0.3])
    variances = torch.stack([0.05 + 0.1 * x.square(), torch.full_like(x, 0.2)])
    return GaussianMixture(means, variances, torch.tensor([0.4, 0.6], dtype=torch.float64)), y


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("coverage", "rank"), [(0.9, 23), (0.8, 20)])
def test_mean_coverage_over_calibration_sets_is_as_guaranteed(
    method: IntervalMethod, coverage: float, rank: int
) -> None:
    """For 24 calibration examples with distinct scores, the coverage is k / 25 on average, k = ceil(25 coverage).

    Targets are fitted apart, so that 1000 targets are 1000 calibration sets. The coverage of one set has a variance of
    less than c (1 - c) / 24.
    """
    calibration, test = wrong_predictions(24, 1000, "calibration"), wrong_predictions(60, 1000, "test")
    intervals = fit_intervals(*calibration, coverage=coverage, method=method)
    covered = interval_coverage(*intervals(test[0]), test[1])  # (1000,)
    error = covered.std().item() / math.sqrt(len(covered))
    assert error < 0.0035
    assert covered.mean().item() == pytest.approx(rank / 25, abs=4 * error)
    assert coverage - 4 * error <= covered.mean().item() <= coverage + 1 / 25 + 4 * error


@pytest.mark.parametrize("method", METHODS)
def test_without_calibration_the_coverage_would_be_wrong(method: IntervalMethod) -> None:
    """The simulation above can fail: the corrections of a correct Gaussian give far less than 0.9."""
    mixture, y = wrong_predictions(4000, 1, "test")
    honest = 1.645 if method == "scaled" else 0.0
    covered = interval_coverage(*ConformalIntervals(method, 0.9, (honest,), 100)(mixture), y)
    assert covered.item() < 0.8


def one_gaussian(examples: int) -> GaussianMixture:
    generator = generator_at(1, "one")
    means = torch.randn(1, examples, 1, generator=generator, dtype=torch.float64)
    return GaussianMixture(means, 0.1 + means.square(), torch.ones(1))


def test_scaled_intervals_by_hand() -> None:
    """Errors of 1..9 deviations: the 5th smallest of 9 for 0.5, the 9th for 0.9."""
    mixture = one_gaussian(9)
    steps = torch.tensor([3.0, -1, 2, -9, 5, -4, 7, 8, -6], dtype=torch.float64)[:, None]
    y = mixture.means[0] + steps * mixture.deviation
    for coverage, correction in ((0.5, 5.0), (0.9, 9.0)):
        intervals = fit_intervals(mixture, y, coverage=coverage)
        assert intervals.corrections == pytest.approx((correction,), rel=1e-12)
        low, high = intervals(mixture)
        torch.testing.assert_close(low, mixture.mean - correction * mixture.deviation)
        torch.testing.assert_close(high, mixture.mean + correction * mixture.deviation)


def test_quantile_intervals_by_hand() -> None:
    """Targets 1..9 above the upper quantile, or that far below the lower one: ends move by the k-th smallest."""
    mixture = one_gaussian(9)
    low, high = mixture.quantiles([0.25, 0.75])
    steps = torch.tensor([3.0, -1, 2, -9, 5, -4, 7, 8, -6], dtype=torch.float64)[:, None]
    y = torch.where(steps > 0, high + steps, low + steps)
    intervals = fit_intervals(mixture, y, coverage=0.5, method="quantile")
    assert intervals.corrections == pytest.approx((5.0,), rel=1e-12)
    torch.testing.assert_close(torch.stack(intervals(mixture)), torch.stack([low - 5, high + 5]))


def test_quantiles_too_far_apart_are_moved_inwards_and_never_cross() -> None:
    mixture = one_gaussian(400)
    intervals = fit_intervals(mixture, mixture.means[0], coverage=0.9, method="quantile")
    assert intervals.corrections[0] < 0
    low, high = intervals(mixture)
    assert (low <= high).all() and (low == high).any() and (low < high).any()
    middle = low == high
    torch.testing.assert_close(low[middle], mixture.mean[middle])
    assert interval_coverage(low, high, mixture.means[0]).item() >= 0.9


@pytest.mark.parametrize("method", METHODS)
def test_correct_gaussians_need_no_correction(method: IntervalMethod) -> None:
    mixture = one_gaussian(20_000)
    noise = torch.randn(20_000, 1, generator=generator_at(2, "y"), dtype=torch.float64)
    y = mixture.means[0] + mixture.deviation * noise
    intervals = fit_intervals(mixture, y, coverage=0.9, method=method)
    assert intervals.corrections[0] == pytest.approx(1.6449 if method == "scaled" else 0.0, abs=0.03)
    width = interval_width(*intervals(mixture)).item()
    assert width == pytest.approx(2 * 1.6449 * mixture.deviation.mean().item(), rel=0.03)


@pytest.mark.parametrize("method", METHODS)
def test_round_trip_through_json(method: IntervalMethod) -> None:
    mixture, y = wrong_predictions(30, 2, "calibration")
    intervals = fit_intervals(mixture, y, method=method)
    again = ConformalIntervals.from_dict(json.loads(json.dumps(intervals.to_dict())))
    assert again == intervals and hash(again) == hash(intervals)
    torch.testing.assert_close(again(mixture), intervals(mixture), rtol=0, atol=0)


def test_single_precision_stays_single() -> None:
    mixture, y = wrong_predictions(30, 2, "calibration")
    single = GaussianMixture(mixture.means.float(), mixture.variances.float(), mixture.weights.float())
    for method in METHODS:
        intervals = fit_intervals(mixture, y, method=method)
        assert all(end.dtype == torch.float32 for end in intervals(single))
        exact = tuple(end.float() for end in intervals(mixture))
        torch.testing.assert_close(intervals(single), exact, rtol=1e-5, atol=1e-5)


def test_refusals() -> None:
    mixture, y = wrong_predictions(9, 2, "calibration")
    with pytest.raises(InvalidInput, match=r"at least 19 calibration examples .* coverage of 0.95. Got 9"):
        fit_intervals(mixture, y, coverage=0.95)
    with pytest.raises(UnknownName, match=r"out of scaled, quantile. Got 'scale'. Did you mean 'scaled'"):
        fit_intervals(mixture, y, method="scale")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="interval method"):
        ConformalIntervals.from_dict({"method": "other", "coverage": 0.9, "corrections": [1.0], "examples": 9})
    with pytest.raises(InvalidInput, match=r"coverage above 0 and below 1. Got 1.5"):
        ConformalIntervals("scaled", 1.5, (1.0,), 9)
    with pytest.raises(InvalidInput, match=r"Expected 1 targets, as calibrated. Got 2"):
        ConformalIntervals("scaled", 0.9, (1.0,), 9)(mixture)
