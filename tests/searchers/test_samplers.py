from __future__ import annotations

from collections import Counter

import pytest
import torch

from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.searchers import ExhaustiveSampler, RandomSampler, RegularisedEvolution
from polyarch.searchers.samplers import NothingLeft, Past, Proposed
from polyarch.spaces import Architecture, Choice, Constraint, Space

SPACE = Space("letters", tuple(Choice(f"place{index}", ("a", "b", "c")) for index in range(4)))


def member(text: str) -> Architecture:
    return SPACE.architecture(list(text))


def finished(**values: float) -> list[Proposed]:
    """Told architectures in order, e.g. ``aaaa=0.5``."""
    return [Proposed(member(text), (value,)) for text, value in values.items()]


def distance(first: Architecture, second: Architecture) -> int:
    return sum(a != b for a, b in zip(first.indices, second.indices, strict=True))


def parents(
    evolution: RegularisedEvolution, past: list[Proposed], *, maximise: bool = True, draws: int = 60
) -> Counter[str]:
    """Which of the past architectures the proposals are one mutation away from."""
    found: Counter[str] = Counter()
    for draw in range(draws):
        child = evolution.propose(Past(past), maximise=maximise, generator=generator_at(0, "child", draw))
        near = [item.architecture.key.replace("|", "") for item in past if distance(item.architecture, child) == 1]
        assert len(near) == 1  # the pasts of these tests are far from each other
        found[near[0]] += 1
    return found


class TestRegularisedEvolution:
    past = finished(aaaa=9.0, bbba=1.0, ccca=3.0, abcb=2.0)  # any two differ in three places

    @pytest.mark.parametrize(("maximise", "parent"), [(True, "ccca"), (False, "bbba")])
    def test_best_of_the_youngest_when_all_compete(self, maximise: bool, parent: str) -> None:
        """aaaa is the best of all, and too old."""
        evolution = RegularisedEvolution(SPACE, seed=0, population=3, tournament=3)
        assert set(parents(evolution, self.past, maximise=maximise)) == {parent}

    def test_anyone_alive_when_one_competes(self) -> None:
        evolution = RegularisedEvolution(SPACE, seed=0, population=3, tournament=1)
        found = parents(evolution, self.past, draws=300)
        assert set(found) == {"bbba", "ccca", "abcb"}
        assert min(found.values()) > 65  # 100 each, four standard deviations are 33

    def test_worst_alive_never_wins_a_tournament_of_two(self) -> None:
        evolution = RegularisedEvolution(SPACE, seed=0, population=3, tournament=2)
        found = parents(evolution, self.past, draws=200)
        assert set(found) == {"ccca", "abcb"}
        assert found["ccca"] > found["abcb"]  # in 2 of 3 pairs

    def test_what_is_not_finished_is_no_parent(self) -> None:
        waiting = [*self.past, Proposed(member("bcab"), None)]
        evolution = RegularisedEvolution(SPACE, seed=0, population=3, tournament=3)
        assert set(parents(evolution, waiting)) == {"ccca"}

    def test_random_until_the_population_is_there(self) -> None:
        evolution = RegularisedEvolution(SPACE, seed=0, population=5, tournament=5)
        drawn = [
            evolution.propose(Past(self.past), maximise=True, generator=generator_at(0, "draw", index))
            for index in range(80)
        ]
        assert max(distance(member("ccca"), architecture) for architecture in drawn) == 4
        assert not {item.architecture for item in self.past} & set(drawn)

    def test_children_are_new_and_accepted(self) -> None:
        no_b_first = RegularisedEvolution(
            SPACE, seed=0, population=1, tournament=1, accept=lambda a: a.option("place0") != "b"
        )
        past = finished(**dict.fromkeys(["caaa", "aaac", "abaa", "aaca", "aaba", "aaab", "aaaa"], 1.0))
        children = {
            no_b_first.propose(Past(past), maximise=True, generator=generator_at(0, "child", index)).key
            for index in range(5)
        }
        assert children == {"a|c|a|a"}  # the one neighbour of the youngest that is left

    def test_no_acceptable_neighbour_means_a_random_one(self) -> None:
        far = RegularisedEvolution(SPACE, seed=0, population=1, tournament=1, accept=lambda a: a.key == "c|c|c|a")
        past = finished(aaaa=1.0)
        assert far.propose(Past(past), maximise=True, generator=generator_at(0, "child")) == member("ccca")

    @pytest.mark.parametrize(("population", "tournament"), [(3, 4), (3, 0), (0, 0)])
    def test_sizes_that_do_not_fit(self, population: int, tournament: int) -> None:
        with pytest.raises(InvalidInput, match="1 <= tournament <= population"):
            RegularisedEvolution(SPACE, seed=0, population=population, tournament=tournament)


class TestRandom:
    def test_everything_once_and_then_nothing(self) -> None:
        sampler = RandomSampler(SPACE, seed=0, accept=lambda a: a.indices[:2] == (0, 0))  # 9 of 81
        past: list[Proposed] = []
        for index in range(9):
            generator = generator_at(0, "draw", index)
            past.append(Proposed(sampler.propose(Past(past), maximise=True, generator=generator), None))
        assert {item.architecture for item in past} == {a for a in SPACE.enumerate() if a.indices[:2] == (0, 0)}
        with pytest.raises(NothingLeft):
            sampler.propose(Past(past), maximise=True, generator=generator_at(0, "draw"))

    def test_a_network_that_draws_miss_is_found_in_a_list(self) -> None:
        """One of 6,561 members, which 2,000 draws miss more often than not."""
        large = Space("letters", tuple(Choice(f"place{index}", ("a", "b", "c")) for index in range(8)))
        sampler = RandomSampler(large, seed=0, accept=lambda a: a.key == "b|c|b|a|a|c|b|b")
        for index in range(3):
            found = sampler.propose(Past(), maximise=True, generator=generator_at(0, "draw", index))
            assert found.key == "b|c|b|a|a|c|b|b"

    def test_nothing_acceptable(self) -> None:
        sampler = RandomSampler(SPACE, seed=0, accept=lambda a: False)
        with pytest.raises(NothingLeft):
            sampler.propose(Past(), maximise=True, generator=torch.Generator())


class TestExhaustive:
    def test_all_members_in_order_then_nothing(self) -> None:
        space = SPACE.constrained(Constraint("no c in front", lambda a: a.indices[0] != 2))
        sampler = ExhaustiveSampler(space, seed=0, accept=lambda a: a.indices[3] == 0)
        past: list[Proposed] = []
        with pytest.raises(NothingLeft):
            while True:
                architecture = sampler.propose(Past(past), maximise=True, generator=torch.Generator())
                past.append(Proposed(architecture, None))
        expected = [a for a in SPACE.enumerate() if a.indices[0] != 2 and a.indices[3] == 0]
        assert [item.architecture for item in past] == expected
