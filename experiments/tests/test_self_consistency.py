"""Agreement of seeds with each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from polyarch.errors import InvalidInput
from polyarch.ranking import Interval, rank_quality
from polyarch_experiments.consistency import self_consistency


def noisy_rows(seeds: int, n: int, noise: float) -> list[list[float]]:
    generator = np.random.default_rng(0)
    signal = generator.normal(size=n)
    rows: list[list[float]] = (signal + generator.normal(0, noise, (seeds, n))).tolist()
    return rows


def test_by_hand() -> None:
    found = self_consistency([[1.0, 2, 3, 4], [1.0, 2, 4, 3], [4.0, 3, 2, 1]], resamples=5)
    assert found.pairs == ((0, 1), (0, 2), (1, 2)) and found.n == 4
    assert found.kendall_of_pairs == pytest.approx((4 / 6, -1, -4 / 6))
    assert found.spearman_of_pairs == pytest.approx((0.8, -1, -0.8))
    assert found.kendall.value == pytest.approx(-1 / 3)
    assert found.spearman.value == pytest.approx(-1 / 3)
    assert found.pearson_of_pairs == pytest.approx(found.spearman_of_pairs)  # the numbers are their ranks


def test_every_pair_equals_scipy() -> None:
    rows = noisy_rows(4, 30, 0.7)
    found = self_consistency(rows, resamples=2)
    assert len(found.pairs) == 6
    for (first, second), value in zip(found.pairs, found.kendall_of_pairs, strict=True):
        assert value == pytest.approx(stats.kendalltau(rows[first], rows[second]).statistic)
    pearson = [stats.pearsonr(rows[first], rows[second]).statistic for first, second in found.pairs]
    assert found.pearson_of_pairs == pytest.approx(pearson)
    assert found.pearson.value == pytest.approx(np.mean(pearson))


def test_two_seeds_have_the_interval_of_their_correlation() -> None:
    first, second = noisy_rows(2, 40, 0.5)
    found, quality = self_consistency([first, second], resamples=60), rank_quality(first, second, resamples=60)
    assert (found.spearman, found.kendall, found.pearson) == (quality.spearman, quality.kendall, quality.pearson)


def test_more_noise_agrees_less() -> None:
    values = [self_consistency(noisy_rows(3, 60, noise), resamples=2).kendall.value for noise in (0.1, 0.5, 5.0)]
    assert all(value is not None for value in values)
    assert values == sorted(values, key=lambda value: -(value or 0))


def test_a_seed_that_says_nothing_has_no_agreement() -> None:
    found = self_consistency([[1.0, 2, 3], [1.0, 3, 2], [5.0, 5, 5]], resamples=5)
    assert found.spearman_of_pairs[0] == pytest.approx(0.5) and found.spearman_of_pairs[1:] == (None, None)
    assert found.spearman == found.kendall == found.pearson == Interval(None, None, None)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([[1.0, 2, 3]], r"Got 1 of lengths \[3\]"),
        ([], r"Got 0 of lengths \[\]"),
        ([[1.0, 2, 3], [1.0, 2]], r"Got 2 of lengths \[2, 3\]"),
        ([[1.0, 2], [1.0, 2]], r"3 or more architectures"),
        ([[1.0, 2, 3], [1.0, 2, math.nan]], "finite predictions"),
    ],
)
def test_input_that_does_not_fit(rows: list[list[float]], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        self_consistency(rows)
