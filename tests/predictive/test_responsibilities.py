"""Responsibilities against Bayes' rule by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyarch.errors import InvalidInput
from polyarch.predictive import responsibilities
from polyarch.randomness import generator_at

K, N, C = 3, 5, 4


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, list[float]]:
    members, examples, classes = (draw(st.integers(low, 5)) for low in (1, 1, 2))
    generator = generator_at(draw(st.integers(0, 2**32)), "mixture")
    scale = draw(st.sampled_from([0.1, 1.0, 30.0]))
    logits = scale * torch.randn(members, examples, classes, dtype=torch.float64, generator=generator)
    labels = torch.randint(classes, (examples,), generator=generator)
    weights = draw(st.lists(st.integers(0, 9), min_size=members, max_size=members).filter(any))
    return logits, labels, [float(weight) for weight in weights]


@given(mixtures())
def test_bayes_rule(mixture: tuple[torch.Tensor, torch.Tensor, list[float]]) -> None:
    logits, labels, weights = mixture
    found = responsibilities(logits, labels, weights)
    probabilities = logits.softmax(-1).tolist()
    for example, label in enumerate(labels.tolist()):
        joint = [w * probabilities[k][example][label] for k, w in enumerate(weights)]
        expected = [value / math.fsum(joint) for value in joint]
        assert found[:, example].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.sum(0), torch.ones(len(labels), dtype=torch.float64))


@given(mixtures(), st.floats(0.01, 100))
def test_weights_need_not_sum_to_one(mixture: tuple[torch.Tensor, torch.Tensor, list[float]], factor: float) -> None:
    logits, labels, weights = mixture
    scaled = responsibilities(logits, labels, [factor * weight for weight in weights])
    torch.testing.assert_close(scaled, responsibilities(logits, labels, weights))


def test_members_that_agree_keep_their_weights() -> None:
    logits = torch.randn(1, N, C, generator=generator_at(0, "logits")).expand(K, N, C)
    weights = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    found = responsibilities(logits, torch.zeros(N, dtype=torch.int64), weights)
    torch.testing.assert_close(found, weights[:, None].expand(K, N))


def test_probabilities_that_round_to_zero() -> None:
    """exp(-2000) and exp(-2001) are 0 in float64; their ratio is e."""
    logits = torch.tensor([[[0.0, 2000.0]], [[0.0, 2001.0]]])
    found = responsibilities(logits, torch.tensor([0]), [1.0, 1.0])
    assert found.flatten().tolist() == pytest.approx([math.e / (1 + math.e), 1 / (1 + math.e)])


def test_a_member_without_weight_has_no_part() -> None:
    logits = torch.randn(K, N, C, generator=generator_at(0, "logits"))
    found = responsibilities(logits, torch.arange(N) % C, [0.0, 1.0, 1.0])
    assert found[0].tolist() == [0.0] * N


LOGITS, LABELS = torch.zeros(K, N, C), torch.zeros(N, dtype=torch.int64)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((LOGITS[0], LABELS, [1.0] * K), r"floats of shape \(K, N, C\)"),
        ((LOGITS.long(), LABELS, [1.0] * K), r"floats of shape \(K, N, C\)"),
        ((LOGITS + math.nan, LABELS, [1.0] * K), "finite values"),
        ((LOGITS, LABELS[1:], [1.0] * K), "one label per example"),
        ((LOGITS, LABELS + C, [1.0] * K), r"labels in 0\.\.3"),
        ((LOGITS, LABELS.float(), [1.0] * K), "labels as integers"),
        ((LOGITS, LABELS, [1.0] * 2), "one weight per member"),
        ((LOGITS, LABELS, [1.0, -1.0, 1.0]), "weights of 0 or more"),
        ((LOGITS, LABELS, [0.0] * 3), "not all 0"),
    ],
)
def test_mistakes_are_explained(arguments: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        responsibilities(*arguments)
