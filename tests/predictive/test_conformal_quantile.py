"""The rank of the conformal quantile, exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from polyarch.errors import InvalidInput
from polyarch.predictive import conformal_quantile, least_examples

COVERAGES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)


def rank(examples: int, coverage: float) -> int:
    """ceil((n + 1) coverage) in thousandths, without rounding."""
    return math.ceil(Fraction(round(1000 * coverage), 1000) * (examples + 1))


@pytest.mark.parametrize("coverage", COVERAGES)
def test_the_rank_for_every_number_of_examples(coverage: float) -> None:
    for examples in range(least_examples(coverage), 400):
        scores = torch.arange(1, examples + 1, dtype=torch.float64).flip(0)
        assert conformal_quantile(scores, coverage) == rank(examples, coverage), examples


@pytest.mark.parametrize("coverage", COVERAGES)
def test_the_least_number_of_examples(coverage: float) -> None:
    least = least_examples(coverage)
    assert rank(least, coverage) <= least
    assert rank(least - 1, coverage) > least - 1


def test_usual_numbers_of_examples() -> None:
    assert [least_examples(coverage) for coverage in (0.8, 0.9, 0.95, 0.99)] == [4, 9, 19, 99]


def test_columns_have_quantiles_of_their_own() -> None:
    scores = torch.stack([torch.arange(9.0), -torch.arange(9.0)], 1)
    assert conformal_quantile(scores, 0.5).tolist() == [4.0, -4.0]
    assert conformal_quantile(scores, 0.9).tolist() == [8.0, 0.0]


def test_too_few_examples() -> None:
    with pytest.raises(InvalidInput, match=r"at least 19 calibration examples .* coverage of 0.95. Got 18"):
        conformal_quantile(torch.zeros(18), 0.95)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 90.0, math.nan])
def test_impossible_coverage(coverage: float) -> None:
    with pytest.raises(InvalidInput, match="coverage above 0 and below 1"):
        least_examples(coverage)
