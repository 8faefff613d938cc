"""The first place, and agreement where nobody knows the truth."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyarch.errors import InvalidInput
from polyarch.ranking import Interval, rank_quality, trust
from polyarch.ranking.correlations import mean_agreement


def noisy(n: int, noise: float, seed: int = 0) -> tuple[list[float], list[float]]:
    generator = np.random.default_rng(seed)
    truth = generator.normal(90, 2, n)
    return (truth + generator.normal(0, noise, n)).tolist(), truth.tolist()


class TestFirstPlace:
    """Where the favourite of the first of two estimators stands by the second."""

    def test_by_hand(self) -> None:
        """The favourite is the third: of four others one is better, one as good."""
        found = trust({"a": [1.0, 2, 9, 4, 5], "b": [95.0, 80, 90, 90, 70]}, resamples=20)
        assert (found.n, found.top) == (5, 2)
        assert found.top_rank_interval.value == pytest.approx((1 + 1 / 2) / 4)

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=12))
    def test_shares_are_in_range(self, pairs: list[tuple[int, int]]) -> None:
        scores = {"a": [float(x) for x, _ in pairs], "b": [float(y) for _, y in pairs]}
        found = trust(scores, resamples=20)
        interval = found.top_rank_interval
        assert interval.value is not None and interval.low is not None and interval.high is not None
        assert 0 <= interval.low <= interval.high <= 1 and 0 <= interval.value <= 1
        if scores["b"][found.top] == max(scores["b"]):
            assert interval.value <= 0.5

    def test_equal_estimators_put_it_first(self) -> None:
        _, truth = noisy(40, 0.0)
        assert trust({"a": truth, "b": truth}, resamples=100).top_rank_interval == Interval(0.0, 0.0, 0.0)

    def test_chance_stands_anywhere(self) -> None:
        """Over many sets of noise the share of the chosen is uniform: mean 1/2 within 3 standard errors."""
        generator = np.random.default_rng(1)
        shares = []
        for _ in range(300):
            predicted, truth = generator.normal(size=(2, 21)).tolist()
            shares.append(trust({"a": predicted, "b": truth}, resamples=1).top_rank_interval.value)
        assert np.mean([share for share in shares if share is not None]) == pytest.approx(
            0.5, abs=3 * math.sqrt(1 / 12 / 300)
        )

    def test_repeated_draws_of_the_chosen_are_not_others(self) -> None:
        """Of three the best is drawn in most resamples, often twice; it always stands first."""
        assert trust({"a": [3.0, 2, 1], "b": [3.0, 2, 1]}, resamples=200).top_rank_interval.high == 0

    def test_the_same_seed_gives_the_same(self) -> None:
        first, second = noisy(30, 1.0)
        scores = {"a": first, "b": second}
        assert trust(scores, resamples=50) == trust(scores, resamples=50)


class TestTrust:
    def test_agreements_are_those_of_the_parts(self) -> None:
        first, truth = noisy(30, 1.0)
        second, _ = noisy(30, 1.5, seed=1)
        seeds = [first, truth, second]
        found = trust({"sotl": first, "val_acc": second}, seeds, resamples=50, seed=3)
        assert (found.n, found.estimators, found.top) == (30, ("sotl", "val_acc"), int(np.argmax(first)))
        assert found.estimator_agreement == rank_quality(first, second, resamples=50, seed=3).spearman
        assert found.seed_agreement == mean_agreement(
            "spearman", np.array(seeds), confidence=0.95, resamples=50, seed=3
        )
        assert json.loads(json.dumps(found.to_dict()))["estimators"] == ["sotl", "val_acc"]

    def test_all_others_judge_the_first_place(self) -> None:
        scores = {"a": [1.0, 2, 9], "b": [1.0, 2, 3], "c": [3.0, 2, 1]}
        found = trust(scores, resamples=5)
        assert found.estimators == ("a", "b") and found.seed_agreement is None
        assert found.estimator_agreement.value == pytest.approx(1)
        assert found.top_rank_interval.value == pytest.approx((0 + 1) / 2)

    def test_an_estimator_that_says_nothing(self) -> None:
        found = trust({"a": [1.0, 2, 3], "b": [7.0, 7, 7]}, resamples=5)
        assert found.estimator_agreement == Interval(None, None, None)
        assert found.top_rank_interval.value == 0.5

    @pytest.mark.parametrize(
        ("scores", "complaint"),
        [
            ({"a": [1.0, 2, 3]}, r"two or more estimators. Got \['a'\]"),
            ({"a": [1.0, 2, 3], "b": [1.0, 2]}, "the same 3 or more architectures"),
        ],
    )
    def test_input_that_does_not_fit(self, scores: dict[str, list[float]], complaint: str) -> None:
        with pytest.raises(InvalidInput, match=complaint):
            trust(scores)
