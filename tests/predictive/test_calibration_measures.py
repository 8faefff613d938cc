"""Calibration against hand counts and scikit-learn; the fitted temperature against its conditions."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive import (
    ConfidenceBin,
    brier,
    calibration_error,
    fit_temperature,
    negative_log_likelihood,
    reliability,
)
from polyarch.randomness import generator_at


def random_predictions(
    seed: int, examples: int = 40, classes: int = 3, sharpness: float = 1.5
) -> tuple[Tensor, Tensor]:
    generator = generator_at(seed, "predictions")
    logits = sharpness * torch.randn(examples, classes, dtype=torch.float64, generator=generator)
    return torch.softmax(logits, -1), torch.randint(classes, (examples,), generator=generator)


seeds = st.integers(0, 10**6)


@given(seeds, st.integers(2, 5))
def test_equals_scikit_learn(seed: int, classes: int) -> None:
    p, y = random_predictions(seed, 30, classes)
    names = list(range(classes))
    assert negative_log_likelihood(p, y) == pytest.approx(log_loss(y.numpy(), p.numpy(), labels=names), rel=1e-10)
    theirs = brier_score_loss(y.numpy(), p.numpy(), labels=names, scale_by_half=False)
    assert brier(p, y) == pytest.approx(theirs, rel=1e-10)


@given(seeds, st.integers(2, 5), st.sampled_from([1, 2, 10, 15, 37]))
def test_calibration_error_is_a_sum_over_bins(seed: int, classes: int, bins: int) -> None:
    p, y = random_predictions(seed, 60, classes)
    top, right = p.max(1).values.tolist(), (p.argmax(1) == y).tolist()
    expected = 0.0
    for position in range(bins):
        held = [n for n in range(60) if min(int(top[n] * bins), bins - 1) == position]
        expected += abs(sum(right[n] - top[n] for n in held)) / 60
    assert calibration_error(p, y, bins) == pytest.approx(expected, abs=1e-12)


def test_by_hand() -> None:
    p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], dtype=torch.float64)
    y = torch.tensor([0, 1, 1])
    assert negative_log_likelihood(p, y) == pytest.approx(-math.log(0.9 * 0.2 * 0.6) / 3, rel=1e-12)
    assert brier(p, y) == pytest.approx(2 * (0.01 + 0.64 + 0.16) / 3, rel=1e-12)
    found = reliability(p, y, 4)
    assert [(part.low, part.high, part.count) for part in found] == [(0.5, 0.75, 1), (0.75, 1.0, 2)]
    assert [part.accuracy for part in found] == [1.0, 0.5]
    assert [part.confidence for part in found] == pytest.approx([0.6, 0.85])
    assert calibration_error(p, y, 4) == pytest.approx((1 * 0.4 + 2 * 0.35) / 3, rel=1e-12)


def test_edges_belong_to_the_bin_above_and_one_to_the_last() -> None:
    p = torch.tensor([[0.6, 0.4], [0.8, 0.2], [1.0, 0.0], [0.5, 0.5]], dtype=torch.float64)
    found = reliability(p, torch.zeros(4, dtype=torch.int64), 5)
    assert [(part.low, part.high, part.count) for part in found] == [(0.4, 0.6, 1), (0.6, 0.8, 1), (0.8, 1.0, 2)]


@given(seeds, st.integers(1, 20))
def test_bins_hold_every_example_once(seed: int, bins: int) -> None:
    p, y = random_predictions(seed)
    found = reliability(p, y, bins)
    assert sum(part.count for part in found) == len(y)
    assert all(part.low <= part.confidence <= part.high for part in found)
    right = sum(part.accuracy * part.count for part in found)
    assert right == pytest.approx((p.argmax(1) == y).sum().item())


def test_extremes() -> None:
    sure, y = torch.eye(3, dtype=torch.float64), torch.arange(3)
    assert (negative_log_likelihood(sure, y), brier(sure, y), calibration_error(sure, y)) == (0, 0, 0)
    wrong = (y + 1) % 3
    assert negative_log_likelihood(sure, wrong) == math.inf
    assert (brier(sure, wrong), calibration_error(sure, wrong)) == (2, 1)
    assert reliability(sure, y, 2) == [ConfidenceBin(0.5, 1.0, 1.0, 1.0, 3)]


def mixture_loss(logits: Tensor, y: Tensor, weights: Tensor, log_temperature: float) -> float:
    """The mean negative log-likelihood, through probabilities."""
    p = torch.softmax(logits * math.exp(-log_temperature), -1)
    mixed = (weights[:, None, None] / weights.sum() * p).sum(0)
    return float(-mixed[torch.arange(len(y)), y].log().mean())


def random_logits(seed: int, members: int, scale: float, examples: int = 60) -> tuple[Tensor, Tensor, Tensor]:
    """Members that see the label through the same noise and some of their own, and are as sure as ``scale`` says."""
    generator = generator_at(seed, "logits")
    y = torch.randint(3, (examples,), generator=generator)
    noise, own = (torch.randn(n, examples, 3, dtype=torch.float64, generator=generator) for n in (1, members))
    weights = 0.1 + torch.rand(members, dtype=torch.float64, generator=generator)
    return scale * (torch.eye(3, dtype=torch.float64)[y] + noise + own / 2), y, weights


class TestTemperature:
    @pytest.mark.parametrize("members", [1, 2, 5])
    @pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
    def test_the_slope_is_zero_by_central_differences(self, members: int, scale: float) -> None:
        for seed in range(3):
            logits, y, weights = random_logits(seed, members, scale)
            found = math.log(fit_temperature(logits, y, weights))
            assert abs(found) < math.log(20)  # inside the range, or the slope need not be 0
            step = 1e-4
            values = [mixture_loss(logits, y, weights, found + move) for move in (step, 0.0, -step)]
            assert abs(values[0] - values[2]) / (2 * step) < 1e-8
            assert values[0] - 2 * values[1] + values[2] > 0

    @given(seeds, st.integers(1, 4), st.floats(0.05, 50))
    def test_no_temperature_of_a_fine_grid_is_better(self, seed: int, members: int, scale: float) -> None:
        logits, y, weights = random_logits(seed, members, scale, examples=8)
        found = fit_temperature(logits, y, weights)
        assert 0.05 <= found <= 20
        grid = [math.log(20) * step / 400 for step in range(-400, 401)]
        best = min(mixture_loss(logits, y, weights, point) for point in grid)
        assert mixture_loss(logits, y, weights, math.log(found)) <= best + 1e-12

    def test_two_valleys(self) -> None:
        """Where one member is wrong and sure, another right and unsure, the loss has valleys at 0.17 and 16."""
        y = torch.zeros(5, dtype=torch.int64)
        margins = torch.tensor([[-5.0, -5.0, -5.0, -0.2, -0.2], [0.5, 0.5, 0.5, 20.0, 20.0]], dtype=torch.float64)
        logits = torch.stack([margins, torch.zeros_like(margins)], -1)
        weights = torch.tensor([0.6, 0.4], dtype=torch.float64)
        grid = [math.log(20) * step / 2000 for step in range(-2000, 2001)]
        values = [mixture_loss(logits, y, weights, point) for point in grid]
        valleys = [i for i in range(1, 4000) if values[i - 1] > values[i] < values[i + 1]]
        assert [math.exp(grid[i]) for i in valleys] == pytest.approx([0.174, 16.14], rel=0.01)
        found = math.log(fit_temperature(logits, y, weights))
        assert found == pytest.approx(grid[min(valleys, key=lambda i: values[i])], abs=2e-3)

    def test_closed_form(self) -> None:
        """Two classes, logit d, right in a share r of cases: sigmoid(d / T) = r, so T = d / log(r / (1 - r))."""
        y = torch.tensor([0] * 9 + [1] * 3)
        logits = torch.tensor([[4.0, 1.0]]).expand(12, 2)
        assert fit_temperature(logits, y) == pytest.approx(3.0 / math.log(3.0), rel=1e-9)

    def test_scaled_logits_give_a_scaled_temperature(self) -> None:
        logits, y, weights = random_logits(0, 3, 1.0)
        once, thrice = fit_temperature(logits, y, weights), fit_temperature(3 * logits, y, weights)
        assert thrice == pytest.approx(3 * once, rel=1e-9)

    def test_what_all_classes_have_in_common_changes_nothing(self) -> None:
        logits, y, weights = random_logits(0, 3, 1.0)
        coarse = (logits * 1024).round() / 1024  # so that the sum is exact
        assert fit_temperature(coarse + 2.0**40, y, weights) == fit_temperature(coarse, y, weights)

    def test_one_network_is_a_mixture_of_one(self) -> None:
        logits, y, _ = random_logits(0, 1, 2.0)
        assert fit_temperature(logits[0], y) == fit_temperature(logits, y, [3.0])

    def test_separable_data_end_in_the_range(self) -> None:
        y = torch.arange(6) % 3
        right = torch.eye(3, dtype=torch.float64)[y]
        assert fit_temperature(right, y) == pytest.approx(0.05, rel=1e-9)
        assert fit_temperature(right, (y + 1) % 3) == pytest.approx(20.0, rel=1e-9)
        assert fit_temperature(1e6 * right, y) == pytest.approx(1.0, rel=1e-9)  # already without loss

    @pytest.mark.parametrize("value", [0.0, 3.7])
    def test_logits_that_say_nothing(self, value: float) -> None:
        assert fit_temperature(torch.full((2, 5, 3), value), torch.arange(5) % 3) == 1.0

    def test_large_logits_in_single_precision(self) -> None:
        logits, y, weights = random_logits(0, 2, 1e30)
        assert fit_temperature(logits.float(), y, weights) == pytest.approx(20.0, rel=1e-12)

    @pytest.mark.parametrize(
        ("logits", "labels", "weights", "complaint"),
        [
            (torch.zeros(3), torch.zeros(3).long(), None, r"shape \(K, N, C\), not empty. Got torch.float32, \(3,\)"),
            (torch.zeros(0, 3), torch.zeros(0).long(), None, r"shape \(N, C\), not empty"),
            (torch.full((2, 3), math.inf), torch.zeros(2).long(), None, "finite values"),
            (torch.zeros(2, 3), torch.tensor([0, 3]), None, r"labels in 0\.\.2. Got 0\.\.3"),
            (torch.zeros(2, 3), torch.tensor([0, 1]), [0.5, 0.5], r"one weight per member, \(1,\)"),
        ],
    )
    def test_input_that_does_not_fit(
        self, logits: Tensor, labels: Tensor, weights: list[float] | None, complaint: str
    ) -> None:
        with pytest.raises(InvalidInput, match=complaint):
            fit_temperature(logits, labels, weights)


HALVES = torch.full((3, 2), 0.5)


@pytest.mark.parametrize("measure", [negative_log_likelihood, brier, calibration_error, reliability])
@pytest.mark.parametrize(
    ("probabilities", "labels", "complaint"),
    [
        (HALVES, torch.tensor([0, 1]), r"one label per example, \(3,\). Got shape \(2,\)"),
        (HALVES, torch.tensor([[0], [1], [0]]), r"one label per example, \(3,\). Got shape \(3, 1\)"),
        (HALVES, torch.tensor([0, 1, 2]), r"labels in 0\.\.1. Got 0\.\.2"),
        (HALVES, torch.tensor([0, 1, -1]), r"labels in 0\.\.1. Got -1\.\.1"),
        (HALVES, torch.tensor([0.0, 1.0, 0.0]), "labels as integers. Got torch.float32"),
        (HALVES, torch.tensor([True, False, True]), "labels as integers. Got torch.bool"),
        (HALVES[0], torch.tensor([0]), r"shape \(N, C\)"),
        (HALVES[:0], torch.tensor([], dtype=torch.int64), "not empty"),
        (2 * HALVES, torch.tensor([0, 1, 0]), "Got a sum of 2"),
        (torch.tensor([[1.5, -0.5]]), torch.tensor([0]), "0 or more. Got -0.5"),
        (torch.tensor([[math.nan, 0.5]]), torch.tensor([0]), "finite values"),
    ],
)
def test_input_that_does_not_fit(
    measure: Callable[[Tensor, Tensor], object], probabilities: Tensor, labels: Tensor, complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        measure(probabilities, labels)


@pytest.mark.parametrize("measure", [calibration_error, reliability])
def test_no_bins(measure: Callable[[Tensor, Tensor, int], object]) -> None:
    with pytest.raises(InvalidInput, match="1 or more bins"):
        measure(HALVES, torch.tensor([0, 1, 0]), 0)


def test_a_prior_on_the_temperature_matters_for_few_examples_only() -> None:
    """Minimised by brute force: sum of losses + (log T)^2 / 2s^2."""
    generator = torch.Generator().manual_seed(0)
    for examples, deviation in ((5, 1.0), (5, 0.3), (400, 1.0)):
        labels = torch.randint(3, (examples,), generator=generator)
        logits = 3 * torch.randn(examples, 3, generator=generator, dtype=torch.float64)
        logits[torch.arange(examples), labels] += 4
        grid = torch.linspace(math.log(0.05), math.log(20), 20_001, dtype=torch.float64)
        losses = torch.stack([F.cross_entropy(logits / u.exp(), labels, reduction="sum") for u in grid])
        best = grid[(losses + grid.square() / (2 * deviation**2)).argmin()]
        assert math.log(fit_temperature(logits, labels, log_deviation=deviation)) == pytest.approx(
            float(best), abs=5e-4
        )
    right, classes = torch.eye(3, dtype=torch.float64) * 20, torch.arange(3)
    assert fit_temperature(right, classes) < 0.4 < 0.99 < fit_temperature(right, classes, log_deviation=1.0)
    with pytest.raises(InvalidInput, match="standard deviation of log T above 0"):
        fit_temperature(right, torch.arange(3), log_deviation=0)
