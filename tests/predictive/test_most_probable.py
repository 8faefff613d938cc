"""The most probable architectures against enumeration, ties included, and in a space too large for it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyarch.distributions import Categorical, Empirical, FactorisedCategorical, Uniform
from polyarch.errors import InvalidInput
from polyarch.predictive import most_probable
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Choice, Constraint, Space

SPACE = Space("small", (Choice("a", ("0", "1", "2")), Choice("b", ("0", "1")), Choice("c", ("0", "1", "2", "3"))))


def wide_space(choices: int, options: int) -> Space:
    names = tuple(map(str, range(options)))
    return Space("wide", tuple(Choice(f"choice{i}", names) for i in range(choices)))


def by_enumeration(q: FactorisedCategorical, most: int) -> list[tuple[int, ...]]:
    columns = [log_q.double().tolist() for log_q in q.log_marginals()]
    value = {
        a.indices: math.fsum(column[i] for column, i in zip(columns, a.indices, strict=True))
        for a in q.space.enumerate()
    }
    return sorted(value, key=lambda indices: (-value[indices], indices))[:most]


@given(st.integers(0, 10**6), st.integers(1, 30), st.booleans())
def test_independent_choices_equal_enumeration(seed: int, most: int, ties: bool) -> None:
    generator = generator_at(seed, "logits")
    logits = {c.name: 2 * torch.randn(len(c), dtype=torch.float64, generator=generator) for c in SPACE.choices}
    if ties:
        logits = {name: value.round().clamp(-1, 1) for name, value in logits.items()}
    q = FactorisedCategorical(SPACE, logits)
    found = most_probable(q, most)
    assert [a.indices for a, _ in found] == by_enumeration(q, most)
    torch.testing.assert_close(
        torch.tensor([value for _, value in found], dtype=torch.float64), q.log_prob([a for a, _ in found]).detach()
    )


def test_all_ties_come_in_the_order_of_the_space() -> None:
    found = most_probable(FactorisedCategorical(SPACE), 100)
    assert [a for a, _ in found] == list(SPACE.enumerate())


def test_equal_factors_in_different_choices_are_exact_ties() -> None:
    """Choices with the same three probabilities: every multiset of options is one level, listed in order."""
    space = wide_space(5, 3)
    q = FactorisedCategorical(space, {c.name: torch.tensor([0.3, 0.0, -0.9]).double() for c in space.choices})
    found = most_probable(q, 40)
    assert [a.indices for a, _ in found] == by_enumeration(q, 40)
    assert len({value for _, value in found[1:6]}) == 1


def test_a_space_too_large_to_walk() -> None:
    """10^30 architectures: the mode, then single steps down, which are the smallest gaps between two options."""
    space = wide_space(30, 10)
    generator = generator_at(0, "logits")
    steps = {c.name: 1 + torch.rand(1, dtype=torch.float64, generator=generator) for c in space.choices}
    # Gaps of 1 to 2 between first and second option, so that one step costs less than any two.
    q = FactorisedCategorical(space, {name: -step * torch.arange(10).double() for name, step in steps.items()})
    found = most_probable(q, 6)
    assert found[0][0] == q.mode()
    cheapest = sorted(range(30), key=lambda i: steps[f"choice{i}"].item())[:5]
    assert [a.indices.index(1) for a, _ in found[1:]] == cheapest
    assert [sum(a.indices) for a, _ in found[1:]] == [1] * 5
    values = [value for _, value in most_probable(q, 2000)]
    assert len(values) == 2000 and values == sorted(values, reverse=True)


@pytest.mark.parametrize("most", [1, 4, 24, 50])
def test_listed_architectures(most: int) -> None:
    logits = torch.randn(24, generator=generator_at(0, "logits")).round()
    q = Categorical(SPACE, logits)
    order = sorted(range(24), key=lambda row: (-logits[row].item(), row))[:most]
    found = most_probable(q, most)
    assert [a for a, _ in found] == [list(SPACE.enumerate())[row] for row in order]
    assert [value for _, value in found] == pytest.approx(torch.log_softmax(logits, 0)[order].tolist())


def test_order_of_the_space_not_of_the_list() -> None:
    members = list(SPACE.enumerate())[:4]
    q = Empirical(SPACE, members[::-1], [1.0, 0.0, 1.0, 2.0])
    assert [a for a, _ in most_probable(q, 4)] == [members[0], members[1], members[3]]


def test_few_equals_are_listed_and_many_refused() -> None:
    q = Uniform(SPACE)
    found = most_probable(q, 24)
    assert [a for a, _ in found] == list(SPACE.enumerate())
    assert [value for _, value in found] == pytest.approx([-math.log(24)] * 24)
    with pytest.raises(InvalidInput, match=r"uniform one over 24, more than the 23 to list"):
        most_probable(q, 23)


def starts_with_one(architecture: Architecture) -> bool:
    return architecture["a"] == 1


def test_a_uniform_distribution_counts_only_members() -> None:
    space = SPACE.constrained(Constraint("a to be 1", starts_with_one))
    found = most_probable(Uniform(space), 8)
    assert [a["a"] for a, _ in found] == [1] * 8
    with pytest.raises(InvalidInput, match="over 8, more than the 7"):
        most_probable(Uniform(space), 7)


def test_none_is_too_few() -> None:
    with pytest.raises(InvalidInput, match="1 or more architectures to list"):
        most_probable(Uniform(SPACE), 0)
