"""Every searcher keeps the contract."""

from __future__ import annotations

import pytest

from polyarch.errors import InvalidInput
from polyarch.estimators import Goal, MACs
from polyarch.runs.run import distinct_networks
from polyarch.searchers import (
    Evaluated,
    Limit,
    Limits,
    StudySearcher,
    evolution,
    exhaustive_search,
    nsga2,
    random_search,
)
from polyarch.searchers.searcher import MakeSampler
from polyarch.spaces import Space
from polyarch.supernets import NB201Supernet
from polyarch.testing import SearcherContract

NET = NB201Supernet(channels=2, cells=1, operations=("none", "nor_conv_1x1"))


class StudyContract(SearcherContract):
    """What a `StudySearcher` promises on top."""

    goals: tuple[Goal, ...] = ("maximise",)
    make_sampler: MakeSampler

    def make_searcher(self) -> StudySearcher:
        return StudySearcher(Limits(NET), type(self).make_sampler, goals=self.goals, seed=0)

    def make_space(self) -> Space:
        return NET.space

    def test_best_is_what_nothing_finished_dominates(self) -> None:
        searcher = self.make_searcher()
        with pytest.raises(InvalidInput, match="at least one scored architecture"):
            searcher.best()
        for _ in range(4):
            self._tell(searcher, searcher.ask(4))
        finished = searcher.finished()
        best = [one for one in finished if not any(self.dominates(other, one) for other in finished)]
        assert sorted(map(str, searcher.best())) == sorted(map(str, best))

    def dominates(self, one: Evaluated, other: Evaluated) -> bool:
        signs = [1 if goal == "maximise" else -1 for goal in self.goals]
        gains = [sign * (a - b) for sign, a, b in zip(signs, one.values, other.values, strict=True)]
        return min(gains) >= 0 and max(gains) > 0

    def test_what_was_asked_for_and_not_told_is_asked_again(self) -> None:
        searcher = self.make_searcher()
        asked = searcher.ask(3)
        assert searcher.ask(3) == asked
        assert searcher.ask(2) == asked[:2]
        self._tell(searcher, asked[:1])
        assert searcher.ask(2) == asked[1:]
        assert searcher.ask(3)[:2] == asked[1:]

    def test_asking_for_nothing_is_a_mistake(self) -> None:
        with pytest.raises(InvalidInput, match="1 or more architectures"):
            self.make_searcher().ask(0)


class TestRandomSearch(StudyContract):
    make_sampler = staticmethod(random_search)


class TestExhaustiveSearch(StudyContract):
    make_sampler = staticmethod(exhaustive_search)

    def test_every_network_comes_once_and_then_nothing(self) -> None:
        searcher = StudySearcher(Limits(NET), exhaustive_search, seed=0, window=64)
        networks = distinct_networks(NET.space.enumerate(), most=64)
        assert searcher.ask(65) == networks
        self._tell(searcher, networks)
        assert searcher.ask(1) == []


class TestEvolution(StudyContract):
    make_sampler = staticmethod(evolution(population=4, tournament=2))


class TestEvolutionTowardsLess(TestEvolution):
    goals = ("minimise",)


class TestNSGA2(StudyContract):
    objectives = 2
    goals = ("maximise", "minimise")
    make_sampler = staticmethod(nsga2(population=4))


class TestRandomSearchOfTwoObjectives(TestNSGA2):
    make_sampler = staticmethod(random_search)


def test_equal_costs_under_different_settings_are_measured_apart() -> None:
    """Two limits on the same kind of cost, here for small and for large images, do not share measurements."""
    small, large = Limit(MACs((3, 4, 4)), 1e12), Limit(MACs((3, 16, 16)), 1e12)
    limits = Limits(NET, [small, large])
    architecture = next(NET.space.enumerate())
    assert limits.measure(small, architecture) == small.cost.score(NET, architecture)
    assert limits.measure(large, architecture) == large.cost.score(NET, architecture)
