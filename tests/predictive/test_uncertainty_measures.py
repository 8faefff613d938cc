"""Entropies by closed forms and bounds; detection by counting pairs and trying all thresholds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive import Detection, detect, entropy, mutual_information, uncertainty_scores
from polyarch.randomness import generator_at


def random_probabilities(seed: int, *shape: int, sharpness: float = 2.0) -> Tensor:
    noise = torch.randn(*shape, dtype=torch.float64, generator=generator_at(seed, "probabilities"))
    return torch.softmax(sharpness * noise, -1)


class TestEntropy:
    def test_by_hand(self) -> None:
        p = torch.tensor([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64)
        assert entropy(p).tolist() == pytest.approx([1.5 * math.log(2), 0.0, math.log(3)], rel=1e-14)

    @given(st.integers(0, 10**6), st.integers(1, 8), st.floats(0.01, 100))
    def test_between_zero_and_log_of_classes(self, seed: int, classes: int, sharpness: float) -> None:
        p = random_probabilities(seed, 6, classes, sharpness=sharpness)
        values = entropy(p)
        assert values.min() >= 0 and values.max() <= math.log(classes) + 1e-12
        # H >= -log max p, with equality only for equal probabilities
        assert (values >= -p.amax(-1).log() - 1e-12).all()

    def test_rounding_does_not_make_it_negative(self) -> None:
        assert entropy(torch.tensor([[1.0 + 1e-6, 0.0]])).tolist() == [0.0]


class TestMutualInformation:
    def test_disjoint_members(self) -> None:
        """Members that are sure of K different classes: the entropy of the weights."""
        weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
        value = mutual_information(torch.eye(3, dtype=torch.float64)[:, None], weights)
        assert value.item() == pytest.approx(entropy(weights[None]).item(), rel=1e-13)

    def test_as_the_mean_divergence_from_the_mixture(self) -> None:
        """I = sum_k w_k KL(p_k || p), an independent formula."""
        p, weights = random_probabilities(0, 4, 5, 3), torch.tensor([1.0, 2.0, 3.0, 4.0]).double()
        shares = weights / weights.sum()
        mixture = (shares[:, None, None] * p).sum(0)
        expected = (shares[:, None] * (p * (p / mixture).log()).sum(-1)).sum(0)
        torch.testing.assert_close(mutual_information(p, weights), expected, rtol=1e-10, atol=0)

    @given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 5), st.floats(0.01, 30))
    def test_bounds(self, seed: int, members: int, classes: int, sharpness: float) -> None:
        """At most log K; at least what Pinsker's inequality says, so 0 only for equal members."""
        p = random_probabilities(seed, members, 4, classes, sharpness=sharpness)
        weights = 0.1 + torch.rand(members, dtype=torch.float64, generator=generator_at(seed, "weights"))
        shares = weights / weights.sum()
        distances = (p - (shares[:, None, None] * p).sum(0)).abs().sum(-1)  # (K, B)
        least = (shares[:, None] * distances.square()).sum(0) / 2
        values = mutual_information(p, weights)
        assert values.min() >= 0
        assert (values >= least - 1e-12).all()
        assert values.max() <= math.log(members) + 1e-12

    @given(st.integers(0, 10**6), st.integers(1, 5))
    def test_equal_members(self, seed: int, members: int) -> None:
        p = random_probabilities(seed, 1, 4, 3).expand(members, 4, 3)
        weights = 0.1 + torch.rand(members, dtype=torch.float64, generator=generator_at(seed, "weights"))
        values = mutual_information(p, weights)
        assert values.min() >= 0 and values.max() <= 1e-12

    def test_weights_are_equal_by_default_and_may_be_zero(self) -> None:
        p = random_probabilities(0, 3, 4, 3)
        torch.testing.assert_close(mutual_information(p), mutual_information(p, [5.0, 5.0, 5.0]))
        torch.testing.assert_close(mutual_information(p, [1.0, 2.0, 0.0]), mutual_information(p[:2], [1.0, 2.0]))

    def test_only_the_proportions_of_weights_matter(self) -> None:
        p, expected = random_probabilities(0, 2, 4, 3), mutual_information(random_probabilities(0, 2, 4, 3), [1.0, 0.5])
        for scale in (1e-300, 7.0, 1.7e308):  # the sum of the last would be infinite
            torch.testing.assert_close(mutual_information(p, [scale, scale / 2]), expected)


numbers = st.lists(st.integers(-4, 4), min_size=1, max_size=12)
"""Few distinct values, so that ties are common."""


def scores(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32) / 3


class TestDetection:
    @given(numbers, numbers)
    def test_auroc_counts_pairs(self, known: list[int], foreign: list[int]) -> None:
        pairs = list(itertools.product(known, foreign))
        expected = sum((b > a) + (b == a) / 2 for a, b in pairs) / len(pairs)
        value = detect(scores(known), scores(foreign)).auroc
        assert value == pytest.approx(expected, abs=1e-14)
        assert value + detect(scores(foreign), scores(known)).auroc == pytest.approx(1, abs=1e-14)

    @given(numbers, numbers)
    def test_average_precision_is_a_sum_over_falling_thresholds(self, known: list[int], foreign: list[int]) -> None:
        """sum_t (recall_t - recall_{t-1}) precision_t; equal scores share one precision."""
        expected, recall = 0.0, 0.0
        for threshold in sorted({*known, *foreign}, reverse=True):
            hits, alarms = (sum(value >= threshold for value in values) for values in (foreign, known))
            expected += (hits / len(foreign) - recall) * hits / (hits + alarms)
            recall = hits / len(foreign)
        assert detect(scores(known), scores(foreign)).aupr == pytest.approx(expected, abs=1e-12)

    @given(numbers, numbers)
    def test_false_alarms_by_trying_all_thresholds(self, known: list[int], foreign: list[int]) -> None:
        possible = [
            np.mean([a >= t for a in known]) for t in {*known, *foreign} if np.mean([b >= t for b in foreign]) >= 0.95
        ]
        assert detect(scores(known), scores(foreign)).fpr95 == min(possible)

    @pytest.mark.parametrize("count", [20, 60, 100, 1000])
    def test_a_rate_that_can_be_met_is_met_exactly(self, count: int) -> None:
        assert detect(torch.arange(count), torch.arange(count)).fpr95 == 0.95

    def test_extremes(self) -> None:
        low, high = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([3.0, 4.0])
        assert detect(low, high) == Detection(auroc=1.0, aupr=1.0, fpr95=0.0)
        assert detect(torch.zeros(3), torch.zeros(2)) == Detection(auroc=0.5, aupr=0.4, fpr95=1.0)
        assert (detect(high, low).auroc, detect(high, low).fpr95) == (0.0, 1.0)

    @given(numbers, numbers)
    def test_only_the_order_matters(self, known: list[int], foreign: list[int]) -> None:
        assume(len({*known, *foreign}) > 1)
        a, b = scores(known).double(), scores(foreign).double()
        assert detect(a.exp(), b.exp()) == detect(a, b)

    @pytest.mark.parametrize(
        ("bad", "complaint"),
        [
            (torch.zeros(0), r"not empty. Got shape \(0,\)"),
            (torch.zeros(2, 2), r"one number per example, not empty. Got shape \(2, 2\)"),
            (torch.tensor([1.0, math.nan]), "finite real numbers"),
            (torch.tensor([1.0, math.inf]), "finite real numbers"),
        ],
    )
    def test_scores_that_do_not_fit(self, bad: Tensor, complaint: str) -> None:
        good = torch.tensor([0.0, 1.0])
        for pair in ((good, bad), (bad, good)):
            with pytest.raises(InvalidInput, match=complaint):
                detect(*pair)


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (torch.tensor([0.5, 0.5]), r"shape \(B, C\), not empty. Got torch.float32, \(2,\)"),
        (torch.zeros(0, 3), r"not empty. Got torch.float32, \(0, 3\)"),
        (torch.tensor([[1, 0]]), r"Expected floats of shape \(B, C\), not empty. Got torch.int64"),
        (torch.tensor([[math.nan, 1.0]]), "finite values"),
        (torch.tensor([[0.5, 0.5], [1.5, -0.5]]), "0 or more. Got -0.5"),
        (torch.tensor([[0.5, 0.5], [0.25, 0.25]]), "sum to 1 over the classes. Got a sum of 0.5"),
    ],
)
def test_probabilities_that_do_not_fit(bad: Tensor, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        entropy(bad)


@pytest.mark.parametrize(
    ("members", "weights", "complaint"),
    [
        (torch.full((4, 2), 0.5), None, r"shape \(K, B, C\)"),
        (torch.full((3, 4, 2), 0.5), [1.0, 1.0], r"one weight per member, \(3,\). Got shape \(2,\)"),
        (torch.full((3, 4, 2), 0.5), [1.0, 1.0, -1.0], "weights of 0 or more"),
        (torch.full((3, 4, 2), 0.5), [0.0, 0.0, 0.0], "not all 0"),
        (torch.full((3, 4, 2), 0.5), [1.0, 1.0, math.inf], "finite weights"),
    ],
)
def test_members_that_do_not_fit(members: Tensor, weights: list[float] | None, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        mutual_information(members, weights)


def test_all_scores_of_the_mixture() -> None:
    members = torch.tensor([[[0.5, 0.5], [0.9, 0.1]], [[0.1, 0.9], [0.9, 0.1]]], dtype=torch.float64)  # (K, B, C)
    found = uncertainty_scores(members, [3.0, 1.0])
    mixture = torch.tensor([[0.4, 0.6], [0.9, 0.1]], dtype=torch.float64)
    torch.testing.assert_close(found["entropy"], entropy(mixture))
    torch.testing.assert_close(found["max_probability"], torch.tensor([0.4, 0.1], dtype=torch.float64))
    torch.testing.assert_close(found["mutual_information"], mutual_information(members, [3.0, 1.0]))
    assert float(found["mutual_information"][0]) > 0.05 and float(found["mutual_information"][1]) < 1e-12
    assert set(uncertainty_scores(members[:1])) == {"entropy", "max_probability"}
