"""The improvement curve, and the order of those that are left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from polyarch.errors import InvalidInput
from polyarch.ranking import top_k
from polyarch_experiments.improvement import improvement

NUMBERS = st.integers(-30, 30).map(float)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=3, max_size=10)


def test_by_hand() -> None:
    """Predicted order d, a, b, c: the worst by prediction, c, goes first; the truly worst, d, goes first beside it."""
    predicted, truth = [3.0, 2.0, 1.0, 4.0], [90.0, 80.0, 70.0, 60.0]
    curve = improvement(predicted, truth, least=2)
    assert curve.kept.tolist() == [4, 3, 2]
    assert curve.mean_truth.tolist() == pytest.approx([75, 230 / 3, 75])
    assert curve.normalised.tolist() == pytest.approx([0, (230 / 3 - 75) / 15, 0])
    assert curve.spearman.tolist() == pytest.approx([1 - 6 * (1 + 1 + 1 + 9) / (4 * 15), 1, 1])
    assert curve.kendall.tolist() == pytest.approx([0, 1, 1])  # 3 of 6 pairs agree with all there


@given(PAIRS)
def test_means_are_those_of_the_top_k_and_stay_between_worst_and_best(pairs: list[tuple[float, float]]) -> None:
    predicted, truth = map(list, zip(*pairs, strict=True))
    curve = improvement(predicted, truth, least=1)
    assert curve.mean_truth.tolist() == pytest.approx([top_k(predicted, truth, k) for k in curve.kept])
    assert curve.normalised[0] == 0
    assert (curve.normalised <= 1 + 1e-12).all()
    if min(truth) < max(truth):
        mean = float(np.mean(truth))
        back = mean + curve.normalised * (max(truth) - mean)
        assert back.tolist() == pytest.approx(curve.mean_truth.tolist())
        assert (back >= min(truth) - 1e-9).all()
    else:
        assert not curve.normalised.any()


@given(st.lists(NUMBERS, min_size=3, max_size=10))
def test_a_perfect_prediction_only_improves(truth: list[float]) -> None:
    curve = improvement(truth, truth, least=2)
    assert (np.diff(curve.normalised) >= -1e-12).all()
    assert curve.normalised[-1] >= curve.normalised[0]
    known = curve.kendall[~np.isnan(curve.kendall)]
    assert known.tolist() == pytest.approx([1.0] * len(known))
    against = improvement([-value for value in truth], truth, least=2)
    assert (np.diff(against.normalised) <= 1e-12).all()


@given(PAIRS)
@settings(max_examples=15)
def test_correlations_are_of_those_truly_best(pairs: list[tuple[float, float]]) -> None:
    """Of distinct truths, so that the truly best k are one set."""
    predicted, truth = [x for x, _ in pairs], [y + 100.0 * i for i, (_, y) in enumerate(pairs)]
    curve = improvement(predicted, truth, least=2)
    for k, spearman, kendall in zip(curve.kept, curve.spearman, curve.kendall, strict=True):
        x, y = predicted[-k:], truth[-k:]
        if len(set(x)) == 1:
            assert np.isnan(spearman) and np.isnan(kendall)
        else:
            assert spearman == pytest.approx(stats.spearmanr(x, y).statistic)
            assert kendall == pytest.approx(stats.kendalltau(x, y).statistic)


@pytest.mark.parametrize("least", [0, 5])
def test_too_few_to_keep(least: int) -> None:
    with pytest.raises(InvalidInput, match=rf"keep 1\.\.4 of 4 architectures. Got least={least}"):
        improvement([1.0, 2, 3, 4], [1.0, 2, 3, 4], least=least)
