"""Paths of a step: independent ones, and fair ones."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from polyarch.distributions import Empirical, Uniform
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import Choice, Constraint, Space
from polyarch.strategies import FairPaths, RandomPaths


def options(count: int) -> tuple[str, ...]:
    return tuple(f"o{index}" for index in range(count))


@st.composite
def wired_spaces(draw: st.DrawFn) -> Space:
    """Operation choices with equally many options and wiring of any sizes, in any order."""
    size = draw(st.integers(1, 6))
    operations = [Choice(f"edge{index}", options(size)) for index in range(draw(st.integers(1, 5)))]
    sizes = draw(st.lists(st.integers(1, 7), max_size=3))
    wiring = [Choice(f"inputs{index}", options(count), kind="wiring") for index, count in enumerate(sizes)]
    return Space("wired", tuple(draw(st.permutations([*operations, *wiring]))))


@given(space=wired_spaces(), seed=st.integers(0, 2**31))
def test_fair_paths_use_every_option_once_and_share_the_wiring(space: Space, seed: int) -> None:
    sampler = FairPaths(space)
    paths = sampler.draw(generator_at(seed, "paths"))
    assert len(paths) == sampler.count and all(path in space for path in paths)
    for choice in space.choices:
        chosen = [path[choice.name] for path in paths]
        if choice.kind == "wiring":
            assert len(set(chosen)) == 1
        else:
            assert sorted(chosen) == list(range(len(choice)))
    assert paths == sampler.draw(generator_at(seed, "paths"))


@pytest.mark.parametrize("position", [0, 2])
def test_each_fair_path_is_uniform(position: int) -> None:
    """Any path of a draw, over the whole space: 3 x 3 operations, 2 wirings."""
    operations = [Choice("a", options(3)), Choice("b", options(3))]
    space = Space("small", (operations[0], Choice("w", options(2), kind="wiring"), operations[1]))
    sampler = FairPaths(space)
    draws = 2700
    counts = Counter(sampler.draw(generator_at(0, "paths", index))[position] for index in range(draws))
    assert len(counts) == space.size
    assert chisquare([counts[architecture] for architecture in space.enumerate()]).pvalue > 1e-3


def test_paths_of_a_fair_draw_differ_by_independent_permutations() -> None:
    """All 6 x 6 pairs of permutations are equally likely."""
    space = Space("small", (Choice("a", options(3)), Choice("b", options(3))))
    sampler = FairPaths(space)
    counts: Counter[tuple[tuple[int, ...], ...]] = Counter()
    for index in range(3600):
        counts[tuple(zip(*(path.indices for path in sampler.draw(generator_at(1, "paths", index))), strict=True))] += 1
    pairs = list(itertools.product(itertools.permutations(range(3)), repeat=2))
    assert set(counts) == set(pairs)
    assert chisquare([counts[pair] for pair in pairs]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (
            Space("1shot1", (Choice("w", options(2), kind="wiring"), Choice("n1", options(3), kind="node_operation"))),
            "Expected operations on edges .* Got operations on nodes of space '1shot1': n1",
        ),
        (
            Space("uneven", (Choice("a", options(2)), Choice("b", options(3)))),
            r"equally many options for fair paths. Got \{'a': 2, 'b': 3\}",
        ),
        (Space("wires", (Choice("w", options(2), kind="wiring"),)), "Got no choice"),
        (
            Space("limited", (Choice("a", options(2)),)).constrained(Constraint("at most 3 weights", lambda _: True)),
            "Expected a space without constraints .* Got at most 3 weights",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Space) else "",
)
def test_spaces_without_fair_paths_are_refused(space: Space, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        FairPaths(space)


def test_random_paths_are_draws_of_q() -> None:
    space = Space("small", (Choice("a", options(3)), Choice("b", options(3))))
    q = Uniform(space)
    sampler = RandomPaths(q, 4)
    assert sampler.count == 4 and RandomPaths(q).count == 1
    assert sampler.draw(generator_at(0, "paths")) == q.sample(4, generator=generator_at(0, "paths"))
    only = space.architecture(["o2", "o0"])
    assert RandomPaths(Empirical(space, [only]), 3).draw(generator_at(0, "paths")) == [only] * 3


@pytest.mark.parametrize("count", [0, -1])
def test_a_step_needs_a_path(count: int) -> None:
    with pytest.raises(InvalidInput, match=f"1 or more paths per step. Got {count}"):
        RandomPaths(Uniform(Space("small", (Choice("a", options(3)),))), count)
