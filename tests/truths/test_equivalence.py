"""Draws in which no network comes twice, and spaces by network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyarch.errors import ConfigError, InvalidInput
from polyarch.spaces import Architecture, Choice, Constraint, Space, nb201_space
from polyarch.truths.equivalence import equivalence_classes


def first_is_b(architecture: Architecture) -> bool:
    return architecture.names[0] == "b"


def test_the_cells_of_nas_bench_201_are_5044_networks() -> None:
    found = equivalence_classes(nb201_space(), "all", seed=0)
    members = [member for network in found for member in network]
    assert len(found) == 5044
    assert len(members) == len(set(members)) == 15625
    assert all(len({member.canonical() for member in network}) == 1 for network in found)


@given(wanted=st.integers(1, 5), seed=st.integers(0, 2**31))
def test_random_networks_are_distinct_and_the_same_for_the_same_seed(wanted: int, seed: int) -> None:
    space = nb201_space(("none", "skip_connect"))  # 64 cells; 0, x, 2x, 3x and 4x
    found = equivalence_classes(space, wanted, seed=seed)
    assert len({network[0].canonical() for network in found}) == wanted
    assert all(len(network) == 1 for network in found)
    assert found == equivalence_classes(space, wanted, seed=seed)
    assert found == equivalence_classes(space, 5, seed=seed)[:wanted]  # a larger truth has the smaller one in it


def test_every_member_is_drawn_equally_often() -> None:
    space = Space("three", (Choice("only", ("a", "b", "c")),))
    draws = [equivalence_classes(space, 1, seed=seed)[0][0].names[0] for seed in range(3000)]
    assert all(abs(draws.count(name) - 1000) < 130 for name in "abc")  # 5 standard deviations


def test_constraints_are_kept() -> None:
    space = Space("grid", (Choice("x", ("a", "b")), Choice("y", ("a", "b", "c"))))
    kept = space.constrained(Constraint("x is b", first_is_b))
    assert {network[0].key for network in equivalence_classes(kept, 3, seed=0)} == {"b|a", "b|b", "b|c"}
    assert len(equivalence_classes(kept, "all", seed=0)) == 3
    with pytest.raises(ConfigError, match=r"Expected up to 3 architectures.* Got 4"):
        equivalence_classes(kept, 4, seed=0)


def test_a_space_too_large_to_walk_is_sampled() -> None:
    large = Space("large", tuple(Choice(f"c{index}", ("a", "b")) for index in range(40)))
    assert len({network[0] for network in equivalence_classes(large, 100, seed=0)}) == 100
    with pytest.raises(InvalidInput, match="to enumerate"):
        equivalence_classes(large, "all", seed=0)
