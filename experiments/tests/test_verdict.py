"""Verdicts from intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyarch.ranking import Interval
from polyarch_experiments.results import Finding
from polyarch_experiments.verdict import (
    all_of,
    any_of,
    claim,
    described,
    finding,
    not_run,
    over_seeds,
    paired,
    spread_ratio,
)

ENDS = st.floats(-2, 2)


@pytest.mark.parametrize(
    ("low", "high", "above", "below", "expected"),
    [
        (0.1, 0.3, 0, None, True),
        (-0.3, -0.1, 0, None, False),
        (-0.1, 0.3, 0, None, None),
        (-0.3, -0.1, None, 0, True),
        (0.0, 0.0, 0, None, False),  # no difference at all is not a larger one
        (-0.04, 0.04, -0.05, 0.05, True),
        (-0.04, 0.06, -0.05, 0.05, None),
        (0.06, 0.2, -0.05, 0.05, False),
        (None, None, 0, None, None),
    ],
)
def test_an_interval_on_one_side_of_the_bound_decides(
    low: float | None, high: float | None, above: float | None, below: float | None, expected: bool | None
) -> None:
    assert finding("x", Interval(0.0, low, high), above=above, below=below).supported is expected


@given(ENDS, ENDS, ENDS)
def test_a_claim_and_its_opposite_never_both_hold(first: float, second: float, bound: float) -> None:
    low, high = sorted((first, second))
    larger = Finding(name="x", value=low, low=low, high=high, above=bound)
    smaller = Finding(name="x", value=low, low=low, high=high, below=bound)
    assert not (larger.supported and smaller.supported)
    assert larger.supported is not True or smaller.supported is False


def test_the_interval_over_seeds_is_students() -> None:
    """Two seeds: mean +- tan(0.475 pi) sd / sqrt(2), because t with one degree of freedom is Cauchy's."""
    found = over_seeds([1.0, 2.0])
    half = math.tan(0.475 * math.pi) * math.sqrt(0.5) / math.sqrt(2)
    assert found.value == 1.5 and found.low == pytest.approx(1.5 - half) and found.high == pytest.approx(1.5 + half)
    assert over_seeds([1.0]) == Interval(1.0, None, None)
    assert paired([2.0, 3.0, 4.0], [1.0, 2.0, 3.0]) == Interval(1.0, 1.0, 1.0)


def test_counts_that_agree_vary_at_least_by_rounding() -> None:
    """Three equal counts: t with two degrees of freedom is 4.303, the deviation of rounding 1 / sqrt(12)."""
    found = over_seeds([2.0, 2.0, 2.0], step=1)
    assert found.high == pytest.approx(2 + 4.3027 / math.sqrt(36), abs=1e-4)
    assert over_seeds([1.0, 5.0], step=1) == over_seeds([1.0, 5.0])
    assert paired([3.0, 3.0], [1.0, 1.0], step=0.5) == over_seeds([2.0, 2.0], step=0.5)


def test_the_ratio_of_spreads_by_hand() -> None:
    """F with (2, 2) degrees of freedom leaves 2.5 % above 39: its quantile at q is q / (1 - q)."""
    found = spread_ratio([0.0, 2.0, 4.0], [0.0, 1.0, 2.0])
    expected = 2.0, 2 / math.sqrt(39), 2 * math.sqrt(39)
    assert (found.value, found.low, found.high) == pytest.approx(expected)
    assert spread_ratio([1.0], [1.0, 2.0]) == spread_ratio([1.0, 2.0], [1.0, 1.0]) == Interval(None, None, None)


def test_the_interval_over_seeds_covers_the_mean() -> None:
    """In 95 % of samples of three; 2,000 of them put the share within four standard errors of 0.5 %."""
    samples = np.random.default_rng(0).normal(size=(2000, 3))
    found = [over_seeds(sample.tolist()) for sample in samples]
    covered = [one.low <= 0 <= one.high for one in found if one.low is not None and one.high is not None]
    assert len(covered) == 2000 and np.mean(covered) == pytest.approx(0.95, abs=0.02)


def test_a_claim_holds_if_all_of_it_does() -> None:
    assert all_of([True, True]) is True
    assert all_of([True, None]) is None and all_of([]) is None
    assert all_of([None, False, True]) is False
    assert any_of([False, True, None]) is True and any_of([False, None]) is None
    assert any_of([False, False]) is False and any_of([]) is None


def test_what_can_happen_fails_only_if_it_never_does() -> None:
    worse, better, neither = (
        finding("it", Interval(0.0, *ends), below=0) for ends in ((-2.0, -1.0), (1.0, 2.0), (-1.0, 1.0))
    )
    assert claim("x.", [worse, better], decide=any_of).verdict == "holds"
    assert claim("x.", [neither, better], decide=any_of).verdict == "undecided"
    assert claim("x.", [better, better], decide=any_of).verdict == "fails"
    assert claim("x.", [worse, not_run("another")]).verdict == "undecided"


def test_what_is_no_fair_test_never_fails() -> None:
    worse, better = (finding("it", Interval(v, v, v), above=0) for v in (-1.0, 1.0))
    assert claim("x.", [worse]).verdict == "fails"
    unfair = claim("x.", [worse], needs="more")
    assert unfair.verdict == "undecided" and unfair.needs == "more" and unfair.findings == [worse]
    assert claim("x.", [better], needs="more").verdict == "holds"
    assert claim("x.", []).verdict == "undecided" and claim("x.", []).numbers == "not run"


def test_findings_in_words() -> None:
    assert described(finding("gain", Interval(0.25, 0.1, 0.4), above=0)) == "gain 0.250 (0.100 to 0.400, holds)"
    assert described(finding("gain", Interval(12.0, -1.0, 25.0), above=0)) == "gain 12.00 (-1.00 to 25.00, undecided)"
    assert described(finding("gain", Interval(1.0, None, None), above=0)) == "gain 1.00 (no interval)"
    assert described(finding("gain", Interval(None, None, None), above=0)) == "gain: not measured"
    assert claim("x.", [finding("gain", Interval(1.0, 1.0, 2.0), above=0)], "of 3").numbers.endswith("holds); of 3")
