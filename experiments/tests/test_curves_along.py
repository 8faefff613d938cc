"""Sums over losses, and how well they rank along the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polyarch.errors import InvalidInput
from polyarch_experiments.training_speed.curves import accumulated, correlation_along


def curves(n: int = 30, steps: int = 12) -> tuple[np.ndarray[Any, np.dtype[np.float64]], list[float]]:
    """Losses whose later steps tell more about the truth."""
    generator = np.random.default_rng(0)
    truth = generator.normal(size=n)
    noise = generator.normal(size=(n, steps)) * np.linspace(4, 0.2, steps)
    return 3 - truth[:, None] + noise, truth.tolist()


def test_windows_by_hand() -> None:
    losses = [[4.0, 2.0, 1.0], [1.0, 1.0, 5.0]]
    assert accumulated(losses).tolist() == losses  # the last step alone
    assert accumulated(losses, window=None).tolist() == [[4, 6, 7], [1, 2, 7]]
    assert accumulated(losses, window=2).tolist() == [[4, 6, 3], [1, 2, 6]]
    assert accumulated(losses, window=9).tolist() == accumulated(losses, window=None).tolist()
    assert accumulated(losses, window=None, decay=0.5).tolist() == [[4, 4, 3], [1, 1.5, 5.75]]
    assert accumulated(losses, decay=0.5, window=2).tolist() == [[4, 4, 2], [1, 1.5, 5.5]]


@given(st.integers(1, 8), st.integers(1, 9), st.sampled_from([0.3, 0.9, 1.0]), st.integers(0, 9))
def test_windows_are_their_formula(steps: int, window: int, decay: float, seed: int) -> None:
    losses = np.random.default_rng(seed).normal(size=(3, steps))
    found = accumulated(losses, window=window, decay=decay)
    for t in range(steps):
        expected = sum(decay ** (t - s) * losses[:, s] for s in range(max(0, t - window + 1), t + 1))
        assert found[:, t] == pytest.approx(expected)


def test_correlations_at_chosen_steps() -> None:
    losses, truth = curves()
    whole = correlation_along(losses, truth, window=None)
    assert len(whole) == 12
    for step in (1, 5, 12):
        expected = stats.spearmanr(-losses[:, :step].sum(axis=1), truth).statistic
        assert whole[step - 1] == pytest.approx(expected)
    assert correlation_along(losses, truth, window=None, steps=[5, 1]) == [whole[4], whole[0]]
    assert correlation_along(losses, truth, steps=[5]) == [
        pytest.approx(stats.spearmanr(-losses[:, 4], truth).statistic)
    ]
    last = correlation_along(losses, truth, steps=[12], window=3, measure="kendall")
    assert last == [pytest.approx(stats.kendalltau(-losses[:, 9:].sum(axis=1), truth).statistic)]
    assert (whole[-1] or 0) > (whole[0] or 0)


def test_losses_that_do_not_vary_have_no_order() -> None:
    assert correlation_along([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]], [3.0, 2.0, 1.0]) == [None, pytest.approx(1)]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"steps": [0]}, r"steps in 1\.\.12. Got \[0\]"),
        ({"steps": [13]}, r"steps in 1\.\.12"),
        ({"window": 0}, "a window of 1 or more"),
        ({"decay": 0.0}, "a decay above 0"),
        ({"decay": 1.1}, "a decay above 0"),
        ({"truth": [1.0, 2.0]}, r"one prediction per true value. Got \(30,\) and \(2,\)"),
        ({"losses": [1.0, 2.0]}, r"shape \(architectures, steps\). Got \(2,\)"),
        ({"losses": np.full((30, 2), np.inf)}, "finite"),
    ],
)
def test_input_that_does_not_fit(change: dict[str, Any], complaint: str) -> None:
    losses, truth = curves()
    with pytest.raises(InvalidInput, match=complaint):
        correlation_along(**{"losses": losses, "truth": truth, **change})
