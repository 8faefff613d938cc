"""Mutation draws uniformly and repeats with its seed."""

from __future__ import annotations

from collections import Counter

from scipy.stats import chisquare

from polyarch.randomness import generator_at
from polyarch.spaces import Choice, Space, mutate, nb201_space

DRAWS = 3000
UNEVEN = Space("uneven", (Choice("x", ("a", "b")), Choice("y", ("a", "b", "c", "d")), Choice("z", ("a",))))


def test_mutation_takes_choice_and_option_uniformly() -> None:
    start = UNEVEN.architecture(("a", "b", "a"))
    generator = generator_at(0, "mutate")
    counts = Counter(mutate(start, generator).key for _ in range(DRAWS))
    expected = {"b|b|a": 1 / 2, "a|a|a": 1 / 6, "a|c|a": 1 / 6, "a|d|a": 1 / 6}
    assert counts.keys() == expected.keys()
    observed = [counts[key] for key in expected]
    assert chisquare(observed, [DRAWS * share for share in expected.values()]).pvalue > 1e-4


def test_mutation_repeats_with_the_seed() -> None:
    start = nb201_space().sample(generator_at(0, "a"))
    for seed in range(5):
        assert mutate(start, generator_at(seed, "m")) == mutate(start, generator_at(seed, "m"))
