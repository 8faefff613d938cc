"""The moves draw what they say."""

from __future__ import annotations

from collections import Counter

from scipy.stats import chisquare

from polyarch.randomness import generator_at
from polyarch.spaces import Choice, Space, crossover, mutate, nb201_space, neighbours

DRAWS = 3000
UNEVEN = Space("uneven", (Choice("x", ("a", "b")), Choice("y", ("a", "b", "c", "d")), Choice("z", ("a",))))


def test_a_cell_has_twenty_four_neighbours() -> None:
    assert len(list(neighbours(nb201_space().sample(generator_at(0, "space"))))) == 6 * 4


def test_mutation_takes_choice_and_option_uniformly() -> None:
    start = UNEVEN.architecture(("a", "b", "a"))
    generator = generator_at(0, "mutate")
    counts = Counter(mutate(start, generator).key for _ in range(DRAWS))
    expected = {"b|b|a": 1 / 2, "a|a|a": 1 / 6, "a|c|a": 1 / 6, "a|d|a": 1 / 6}
    assert counts.keys() == expected.keys()
    observed = [counts[key] for key in expected]
    assert chisquare(observed, [DRAWS * share for share in expected.values()]).pvalue > 1e-4


def test_crossover_takes_either_parent_with_equal_probability() -> None:
    first, second = UNEVEN.architecture(("a", "b", "a")), UNEVEN.architecture(("b", "d", "a"))
    generator = generator_at(0, "crossover")
    counts = Counter(crossover(first, second, generator).key for _ in range(DRAWS))
    assert counts.keys() == {"a|b|a", "a|d|a", "b|b|a", "b|d|a"}
    assert chisquare(list(counts.values())).pvalue > 1e-4


def test_moves_repeat_with_the_seed() -> None:
    space = nb201_space()
    first, second = space.sample(generator_at(0, "a")), space.sample(generator_at(0, "b"))
    for seed in range(5):
        assert mutate(first, generator_at(seed, "m")) == mutate(first, generator_at(seed, "m"))
        assert crossover(first, second, generator_at(seed, "c")) == crossover(first, second, generator_at(seed, "c"))
