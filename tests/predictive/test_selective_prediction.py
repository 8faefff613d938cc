"""Risk and coverage against counting at every threshold; ties; the threshold for a share to decline."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive import RiskCoverageCurve, risk_coverage, threshold_at
from polyarch.randomness import generator_at

examples = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=15)
"""(uncertainty, whether it is wrong) with few distinct uncertainties, so that ties are common."""


def as_tensors(pairs: list[tuple[int, bool]]) -> tuple[Tensor, Tensor]:
    return torch.tensor([a / 7 for a, _ in pairs]), torch.tensor([b for _, b in pairs])


@given(examples)
def test_every_threshold_by_counting(pairs: list[tuple[int, bool]]) -> None:
    curve = risk_coverage(*as_tensors(pairs))
    coverage, risk = [], []
    for threshold in sorted({a for a, _ in pairs}):
        answered = [wrong for a, wrong in pairs if a <= threshold]
        coverage.append(len(answered) / len(pairs))
        risk.append(answered.count(True) / len(answered))
    assert curve.coverage == pytest.approx(coverage, abs=1e-15)
    assert curve.risk == pytest.approx(risk, abs=1e-15)
    assert curve.coverage[-1] == 1
    assert curve.risk[-1] == pytest.approx(sum(b for _, b in pairs) / len(pairs))


@given(examples)
def test_the_order_of_the_data_does_not_matter(pairs: list[tuple[int, bool]]) -> None:
    curve = risk_coverage(*as_tensors(pairs))
    for other in (sorted(pairs), sorted(pairs, reverse=True)):
        assert risk_coverage(*as_tensors(other)) == curve


def test_by_hand() -> None:
    uncertainty = torch.tensor([0.3, 0.1, 0.3, 0.2])
    curve = risk_coverage(uncertainty, torch.tensor([False, False, True, True]))
    assert curve.coverage == (0.25, 0.5, 1.0)
    assert curve.risk == (0.0, 0.5, 0.5)
    assert curve.area == 0.25 * 0.0 + 0.25 * 0.5 + 0.5 * 0.5


def test_zeros_and_ones_count_as_booleans() -> None:
    uncertainty, wrong = torch.rand(9, generator=generator_at(0, "values")), torch.arange(9) % 3 == 0
    assert risk_coverage(uncertainty, wrong.float()) == risk_coverage(uncertainty, wrong)


@given(st.permutations(range(9)), st.lists(st.booleans(), min_size=9, max_size=9))
def test_without_ties_the_area_is_the_mean_risk(order: list[int], wrong: list[bool]) -> None:
    curve = risk_coverage(torch.tensor(order), torch.tensor(wrong))
    ranked = [wrong[order.index(rank)] for rank in range(9)]
    risks = [ranked[: n + 1].count(True) / (n + 1) for n in range(9)]
    assert curve.area == pytest.approx(sum(risks) / 9, abs=1e-14)


def test_errors_of_any_size() -> None:
    """The risk is the mean error of those answered: distances count by how far they are."""
    uncertainty = torch.tensor([0.3, 0.1, 0.3, 0.2], dtype=torch.float64)
    curve = risk_coverage(uncertainty, torch.tensor([7.0, 0.5, 2.0, 1.5]))
    assert curve == RiskCoverageCurve((0.25, 0.5, 1.0), (0.5, 1.0, 2.75))


def test_best_worst_and_blind_order() -> None:
    """Six right and two wrong of eight: the area of the best order, the worst, and of no order at all."""
    wrong = torch.tensor([False] * 6 + [True] * 2)
    best, worst = (risk_coverage(sign * torch.arange(8), wrong).area for sign in (1, -1))
    assert best == pytest.approx((1 / 7 + 2 / 8) / 8)
    assert worst == pytest.approx((1 + 1 + sum(2 / n for n in range(3, 9))) / 8)
    blind = risk_coverage(torch.zeros(8), wrong)
    assert blind == RiskCoverageCurve((1.0,), (0.25,))
    assert blind.area == 0.25


SHARES = (0.0, 0.05, 0.1, 0.25, 0.29, 0.3, 0.5, 0.7, 0.9, 0.99)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.sampled_from(SHARES))
def test_threshold_is_the_smallest_that_fits(values: list[int], share: float) -> None:
    uncertainty = torch.tensor(values) / 7
    threshold = threshold_at(uncertainty, share)
    fitting = [t for t in set(uncertainty.tolist()) if (uncertainty > t).sum().item() / len(values) <= share]
    assert threshold == min(fitting)


@pytest.mark.parametrize("count", [10, 20, 100, 300, 1000])
@pytest.mark.parametrize("share", SHARES)
def test_threshold_declines_the_whole_share(count: int, share: float) -> None:
    """Without ties exactly floor(share N), also where share * N rounds to below a whole number (0.29 * 100)."""
    uncertainty = torch.randn(count, generator=generator_at(count, "values"))
    declined = (uncertainty > threshold_at(uncertainty, share)).sum().item()
    assert declined == round(share * 100) * count // 100


@pytest.mark.parametrize(
    ("uncertainty", "errors", "complaint"),
    [
        (torch.zeros(3), torch.ones(2), "Got 3 and 2"),
        (torch.zeros(0), torch.zeros(0), "not empty"),
        (torch.zeros(2, 2), torch.ones(2, 2), r"one number per example, not empty. Got shape \(2, 2\)"),
        (torch.tensor([0.0, math.nan]), torch.ones(2), "finite real numbers"),
        (torch.zeros(2), torch.tensor([-0.5, 1.0]), "errors of 0 or more. Got -0.5"),
    ],
)
def test_input_that_does_not_fit(uncertainty: Tensor, errors: Tensor, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        risk_coverage(uncertainty, errors)


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_share_out_of_range(share: float) -> None:
    with pytest.raises(InvalidInput, match="share of 0 or more and below 1"):
        threshold_at(torch.zeros(3), share)


def test_threshold_of_bad_values() -> None:
    with pytest.raises(InvalidInput, match="finite real numbers"):
        threshold_at(torch.tensor([1.0, math.inf]), 0.1)
