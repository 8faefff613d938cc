"""Weights of members against products of likelihoods, grids of weights and the bound on expectation maximisation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.predictive import Mixture, posterior_weights, stacked_weights
from polyarch.randomness import generator_at

Weigh = Callable[[Tensor, Tensor], Tensor]
both = pytest.mark.parametrize("weigh", [posterior_weights, stacked_weights])


def telling(probabilities: list[list[float]]) -> tuple[Tensor, Tensor]:
    """Logits and labels of two classes under which p_k(y_n | x_n) are these (K, N)."""
    p = torch.tensor(probabilities, dtype=torch.float64)
    return torch.stack([(1 - p).log(), p.log()], -1), torch.ones(p.shape[1], dtype=torch.int64)


def likelihood(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """(1/N) sum_n log sum_k w_k p_k(y_n | x_n) for weights (..., K)."""
    p = logits.softmax(-1)[:, torch.arange(len(labels)), labels]  # (K, N)
    return (weights @ p).log().mean(-1)


def grid(members: int, steps: int) -> Tensor:
    """All weights that are multiples of 1/steps and sum to 1, (M, K)."""
    heads = itertools.product(range(steps + 1), repeat=members - 1)
    rows = [(*head, steps - sum(head)) for head in heads if sum(head) <= steps]
    return torch.tensor(rows, dtype=torch.float64) / steps


@st.composite
def judged(draw: st.DrawFn, most: int = 4) -> tuple[Tensor, Tensor]:
    members, examples, classes = draw(st.integers(2, most)), draw(st.integers(1, 6)), draw(st.integers(2, 4))
    generator = generator_at(draw(st.integers(0, 2**32)), "logits")
    scale = draw(st.sampled_from([0.1, 1.0, 5.0]))
    logits = scale * torch.randn(members, examples, classes, dtype=torch.float64, generator=generator)
    return logits, torch.randint(classes, (examples,), generator=generator)


def test_posterior_of_two_members_by_hand() -> None:
    """0.9 * 0.8 * 0.3 = 0.216 against 0.5 * 0.6 * 0.7 = 0.21."""
    found = posterior_weights(*telling([[0.9, 0.8, 0.3], [0.5, 0.6, 0.7]]))
    assert found.tolist() == pytest.approx([0.216 / 0.426, 0.21 / 0.426], rel=1e-12)
    assert found.dtype == torch.float64


@given(judged())
def test_posterior_is_the_product_of_likelihoods(example: tuple[Tensor, Tensor]) -> None:
    logits, labels = example
    p = logits.softmax(-1).tolist()
    products = [math.prod(row[label] for row, label in zip(member, labels.tolist(), strict=True)) for member in p]
    expected = [product / math.fsum(products) for product in products]
    assert posterior_weights(logits, labels).tolist() == pytest.approx(expected, rel=1e-9)


def test_posterior_of_many_examples_is_all_but_one_hot() -> None:
    """0.6^n and 0.61^n are 0 in float64 for n = 5000, and their ratio is e^-82; 0.5^n is beyond single precision."""
    n = 5000
    logits, labels = telling([[0.6] * n, [0.61] * n, [0.5] * n])
    found = posterior_weights(logits, labels)
    assert found[1] == 1.0
    assert found[0].log().item() == pytest.approx(n * math.log(0.6 / 0.61), rel=1e-9)
    assert found[2].item() == torch.finfo(torch.float32).tiny
    stacked = stacked_weights(logits, labels)  # here too the second is best everywhere
    assert stacked.argmax() == 1
    for weights in (found, stacked):
        assert weights.sum().item() == pytest.approx(1.0, abs=1e-12)
        assert Mixture([nn.Linear(1, 2) for _ in range(3)], weights).weights.min() > 0


def test_two_members_that_complete_each_other() -> None:
    """d/dw of log(b_1 + w d_1) + log(b_2 + w d_2), d = a - b, is 0 at w = -(d_1 b_2 + d_2 b_1) / (2 d_1 d_2)."""
    logits, labels = telling([[0.8, 0.1], [0.3, 0.7]])
    best = -(0.5 * 0.7 - 0.6 * 0.3) / (2 * 0.5 * -0.6)
    assert stacked_weights(logits, labels).tolist() == pytest.approx([best, 1 - best], rel=1e-9)
    assert posterior_weights(logits, labels).tolist() == pytest.approx([0.08 / 0.29, 0.21 / 0.29], rel=1e-9)


def test_a_member_that_is_worse_everywhere_loses_its_weight() -> None:
    """w <- w / (w + 3 (1 - w)) at most, for a member whose likelihoods are at most a third."""
    logits, labels = telling([[0.2, 0.3, 0.1], [0.9, 0.9, 0.3]])
    found = stacked_weights(logits, labels, iterations=20)
    assert 0 < found[0].item() <= 3.0**-20
    assert stacked_weights(logits, labels)[0].item() == torch.finfo(torch.float32).tiny


@given(judged(most=3), st.sampled_from([1, 3, 30, 200]))
def test_no_weights_on_a_grid_are_better_than_the_bound_allows(example: tuple[Tensor, Tensor], iterations: int) -> None:
    logits, labels = example
    best = likelihood(logits, labels, grid(len(logits), 60)).max()
    found = likelihood(logits, labels, stacked_weights(logits, labels, iterations=iterations))
    assert best - found <= math.log(len(logits)) / iterations + 1e-12


@given(judged())
def test_the_likelihood_never_falls(example: tuple[Tensor, Tensor]) -> None:
    logits, labels = example
    equal = torch.full((len(logits),), 1 / len(logits), dtype=torch.float64)
    rising = [equal, *(stacked_weights(logits, labels, iterations=count) for count in (1, 2, 3, 4, 10, 50))]
    values = [likelihood(logits, labels, weights).item() for weights in rising]
    assert all(after >= before - 1e-12 for before, after in itertools.pairwise(values))
    assert values[1] > values[0] or torch.allclose(rising[1], equal, atol=1e-6)


@both
@given(judged())
def test_members_that_are_the_same_get_equal_weights(weigh: Weigh, example: tuple[Tensor, Tensor]) -> None:
    logits, labels = example
    alike = logits[:1].expand_as(logits)
    torch.testing.assert_close(
        weigh(alike, labels), torch.full((len(logits),), 1 / len(logits), dtype=torch.float64), rtol=1e-12, atol=0
    )
    twins = weigh(torch.cat([logits, logits[:1]]), labels)
    torch.testing.assert_close(twins[0], twins[-1], rtol=1e-9, atol=0)


@both
@given(judged(), st.randoms(use_true_random=False))
def test_the_order_of_members_and_examples_says_nothing(
    weigh: Weigh, example: tuple[Tensor, Tensor], dice: Any
) -> None:
    logits, labels = example
    members, examples = (dice.sample(range(count), count) for count in logits.shape[:2])
    found = weigh(logits[members][:, examples], labels[examples])
    torch.testing.assert_close(found, weigh(logits, labels)[members], rtol=1e-7, atol=1e-12)


@both
def test_one_member_has_all_weight(weigh: Weigh) -> None:
    logits, labels = telling([[0.2, 0.7]])
    assert weigh(logits.float(), labels).tolist() == [1.0]


LOGITS, LABELS = torch.zeros(3, 5, 4), torch.zeros(5, dtype=torch.int64)


@both
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((LOGITS[0], LABELS), r"floats of shape \(K, N, C\)"),
        ((LOGITS + math.nan, LABELS), "finite values"),
        ((LOGITS, LABELS[1:]), "one label per example"),
        ((LOGITS, LABELS + 4), r"labels in 0\.\.3"),
    ],
)
def test_mistakes_are_explained(weigh: Weigh, arguments: tuple[Tensor, Tensor], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        weigh(*arguments)


def test_no_iteration_is_no_maximum() -> None:
    with pytest.raises(InvalidInput, match=r"^Expected 1 or more iterations\. Got 0\.$"):
        stacked_weights(LOGITS, LABELS, iterations=0)
