"""A search proposes every network once, and ends where none is left."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest
from optuna.samplers import BaseSampler, RandomSampler

from polyarch.estimators import Goal, Latency, Parameters
from polyarch.searchers import Limit, Limits, StudySearcher, evolution, exhaustive_search, nsga2, random_search
from polyarch.searchers.searcher import MakeSampler
from polyarch.spaces import Architecture, Constraint
from polyarch.supernets import NB201Supernet

optuna.logging.set_verbosity(optuna.logging.WARNING)

NET = NB201Supernet(channels=2, cells=1, operations=("none", "skip_connect", "nor_conv_1x1"))
NETWORKS = {member.canonical() for member in NET.space.enumerate()}


def plain_optuna(seed: int, limits: Limits) -> BaseSampler:
    """A sampler that knows nothing of networks, as a user's own may."""
    return RandomSampler(seed=seed)


SAMPLERS: dict[str, MakeSampler] = {
    "random": random_search,
    "exhaustive": exhaustive_search,
    "evolution": evolution(population=6, tournament=3),
    "nsga2": nsga2(population=6),
    "plain optuna": plain_optuna,
}


def score(architecture: Architecture) -> list[float]:
    """Two numbers that depend on the network alone."""
    key = architecture.canonical()
    return [float(len(key)), float(key.count("+"))]


def search(searcher: StudySearcher, evaluations: int) -> StudySearcher:
    while searcher.count() < evaluations and (asked := searcher.ask(4)):
        objectives = len(searcher.study.directions)
        searcher.tell(asked, [score(architecture)[:objectives] for architecture in asked])
    return searcher


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_evaluation_is_another_network(sampler: str) -> None:
    searcher = search(StudySearcher(Limits(NET), SAMPLERS[sampler], seed=0), 40)
    found = [item.architecture.canonical() for item in searcher.finished()]
    assert len(set(found)) == len(found) == searcher.count() == 40 < len(NETWORKS)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_ends_when_all_networks_are_known(sampler: str) -> None:
    net = NB201Supernet(channels=2, cells=1, operations=("none", "skip_connect"))
    searcher = search(StudySearcher(Limits(net), SAMPLERS[sampler], seed=0), 100)
    assert {item.architecture.canonical() for item in searcher.finished()} == {
        "nothing", "x", "x+x", "x+x+x", "x+x+x+x"
    }  # fmt: skip
    assert searcher.count() == 5
    assert searcher.ask(1) == []


def test_a_sampler_that_misses_the_constraints_is_helped_out() -> None:
    """Plain Optuna would need 64 proposals for one that fits."""
    net = NB201Supernet(channels=2, cells=1, operations=("none", "nor_conv_1x1"))
    net.space = net.space.constrained(Constraint("six convolutions", lambda a: set(a.names) == {"nor_conv_1x1"}))
    searcher = StudySearcher(Limits(net), plain_optuna, seed=0)
    assert [architecture.names for architecture in searcher.ask(2)] == [("nor_conv_1x1",) * 6]
    reasons = [trial.user_attrs.get("rejected") for trial in searcher.study.trials]
    assert reasons.count("outside the constraints of the space") >= 20


def test_limits_and_their_end_go_by_network() -> None:
    """Only cells without a convolution are small enough: 5 of the networks."""
    fewest = min(map(NET.parameter_count, NET.space.enumerate()))
    limits = Limits(NET, [Limit(Parameters(), fewest)])
    searcher = search(StudySearcher(limits, evolution(population=2, tournament=2), seed=0), 100)
    assert searcher.count() == 5
    loose_end = ["nor_conv_1x1", "none", "none", "skip_connect", "none", "none"]
    assert limits.allows(NET.space.architecture(loose_end))  # its convolution leads nowhere


def test_a_network_is_measured_once() -> None:
    measured: list[Architecture] = []

    class Counted(Latency):
        def score(self, net: object, architecture: Architecture) -> float:
            measured.append(architecture)
            return 1.0

    limits = Limits(NET, [Limit(Counted((3, 8, 8)), 2.0)])
    for member in NET.space.enumerate():
        assert limits.allows(member)
    assert len(measured) == len(NETWORKS)


def test_a_front_has_every_network_once() -> None:
    goals: list[Goal] = ["maximise", "minimise"]
    searcher = search(StudySearcher(Limits(NET), nsga2(population=6), goals=goals, seed=0), 48)
    front = [item.architecture.canonical() for item in searcher.best()]
    assert len(set(front)) == len(front)


@pytest.mark.parametrize("sampler", ["nsga2", "plain optuna", "evolution"])
def test_interrupted_at_the_end_of_the_space(sampler: str, tmp_path: Path) -> None:
    """Reopened after every batch, also while a sampler finds nothing but known networks."""
    net = NB201Supernet(channels=2, cells=1, operations=("none", "skip_connect"))

    def opened(path: Path | None) -> StudySearcher:
        return StudySearcher(Limits(net), SAMPLERS[sampler], seed=3, storage=path)

    expected = search(opened(None), 100).finished()
    while (again := opened(tmp_path / "study.db")).count() < len(expected):
        asked = again.ask(4)
        again.tell(asked[:1], [score(asked[0])[:1]])
    assert again.ask(1) == []
    assert again.finished() == expected
