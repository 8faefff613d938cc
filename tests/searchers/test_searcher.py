from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
import torch
from optuna.trial import TrialState

from polyarch.errors import ImpossibleSpace, InvalidInput, NotFiniteError
from polyarch.estimators import Estimator, MACs, Parameters
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
from polyarch.spaces import Architecture, Constraint
from polyarch.supernets import ChainSupernet, NB201Supernet

optuna.logging.set_verbosity(optuna.logging.WARNING)

SAMPLERS: dict[str, MakeSampler] = {
    "random": random_search,
    "exhaustive": exhaustive_search,
    "evolution": evolution(population=4, tournament=2),
    "nsga2": nsga2(population=4),
    "plain optuna": lambda seed, limits: optuna.samplers.RandomSampler(seed=seed),  # as a user's own may be
}


def chain_net(layers: int = 3) -> ChainSupernet:
    """Layers of k3e1, k3e2 or skip; every architecture counts as a network of its own."""
    net = ChainSupernet(
        channels=[2] * layers, kernels=(3,), expansions=(1, 2), in_channels=1, stem_channels=2, head_channels=2
    )
    net.space = replace(net.space, canonical=None)
    return net


def additive(architecture: Architecture) -> float:
    """Every choice adds something of its own; index 0 everywhere is the worst."""
    return float(sum((position + 1) * index for position, index in enumerate(architecture.indices)))


def search(searcher: StudySearcher, evaluations: int, batch: int = 1) -> StudySearcher:
    while searcher.count() < evaluations:
        asked = searcher.ask(batch)
        if not asked:
            break
        searcher.tell(asked, [[additive(architecture)] for architecture in asked])
    return searcher


class TestFinding:
    def test_evolution_beats_random(self) -> None:
        """Over the 15,625 cells and five seeds, with 80 evaluations each: the mean best is better, on every seed."""
        net = NB201Supernet(channels=1, cells=1)
        net.space = replace(net.space, canonical=None)  # cells of the same network have different scores here
        limits = Limits(net)
        best: dict[str, list[float]] = {"evolution": [], "random": []}
        for seed, (name, found) in itertools.product(range(5), best.items()):
            make = evolution(population=10, tournament=4) if name == "evolution" else random_search
            searcher = search(StudySearcher(limits, make, seed=seed), 80)
            found.append(max(item.values[0] for item in searcher.finished()))
        assert statistics.mean(best["evolution"]) >= statistics.mean(best["random"]) + 5  # of at most 84
        assert all(ours > random for ours, random in zip(best["evolution"], best["random"], strict=True))

    def test_minimising_finds_the_other_end(self) -> None:
        make = evolution(population=6, tournament=3)
        searcher = StudySearcher(Limits(chain_net(4)), make, goals=["minimise"], seed=0)
        (best,) = {item.architecture for item in search(searcher, 60).best()}
        assert best.indices == (0, 0, 0, 0)

    def test_random_does_not_repeat(self) -> None:
        searcher = search(StudySearcher(Limits(chain_net()), random_search, seed=0), 24, batch=4)
        assert len({item.architecture for item in searcher.finished()}) == len(searcher.finished()) == 24

    @pytest.mark.parametrize("sampler", SAMPLERS)
    def test_the_seed_decides(self, sampler: str) -> None:
        found = [
            search(StudySearcher(Limits(chain_net()), SAMPLERS[sampler], seed=seed), 10, batch=3).finished()
            for seed in (0, 0, 1)
        ]
        assert found[0] == found[1]
        assert (found[0] != found[2]) == (sampler != "exhaustive")


class TestExhaustive:
    @pytest.mark.parametrize("batch", [1, 4])
    def test_all_feasible_once_then_nothing(self, batch: int) -> None:
        net = chain_net()
        bound = statistics.median(Parameters().score(net, a) for a in net.space.enumerate())
        feasible = [a for a in net.space.enumerate() if Parameters().score(net, a) <= bound]
        assert 1 < len(feasible) < 27
        searcher = StudySearcher(Limits(net, [Limit(Parameters(), bound)]), exhaustive_search, seed=0)
        search(searcher, 1000, batch=batch)
        assert [item.architecture for item in searcher.finished()] == feasible
        assert searcher.ask(3) == searcher.ask(3) == []
        assert searcher.count() == len(feasible)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("cost", [Parameters(), MACs((1, 4, 4))], ids=lambda cost: cost.name)
class TestLimits:
    def test_are_never_broken(self, sampler: str, cost: Estimator) -> None:
        net = chain_net()
        costs = {a: cost.score(net, a) for a in net.space.enumerate()}
        bound = sorted(costs.values())[len(costs) // 2]
        searcher = search(StudySearcher(Limits(net, [Limit(cost, bound)]), SAMPLERS[sampler], seed=0), 12, batch=4)
        told = [item.architecture for item in searcher.finished()]
        assert len(told) == 12
        assert max(costs[architecture] for architecture in told) <= bound
        rejected = searcher.study.get_trials(states=(TrialState.PRUNED,))
        assert bool(rejected) == (sampler == "plain optuna")  # which knows no limits
        for trial in rejected:
            architecture, reason = net.space.architecture(trial.params), trial.user_attrs["rejected"]
            if costs[architecture] > bound:
                assert reason.startswith(f"{cost.name} ")
            else:
                first = searcher.study.trials[int(reason.removeprefix("the network of trial "))]
                assert net.space.architecture(first.params) == architecture

    def test_that_nothing_keeps(self, sampler: str, cost: Estimator) -> None:
        net = chain_net(2)
        smallest = min(cost.score(net, a) for a in net.space.enumerate())
        searcher = StudySearcher(Limits(net, [Limit(cost, smallest - 1)]), SAMPLERS[sampler], seed=0)
        with pytest.raises(
            ImpossibleSpace, match=rf"{cost.name} at most {smallest - 1:g} \(smallest seen: {smallest:g}\)"
        ):
            searcher.ask(2)
        assert (searcher.count(), searcher.finished()) == (0, [])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_constraints_of_the_space_are_never_broken(sampler: str) -> None:
    net = chain_net()
    net.space = net.space.constrained(Constraint("a block in layer 1", lambda a: a.option("layer1") != "skip"))
    searcher = search(StudySearcher(Limits(net), SAMPLERS[sampler], seed=0), 12, batch=4)
    assert len(searcher.finished()) == 12
    assert all(item.architecture in net.space for item in searcher.finished())
    rejected = [t.user_attrs["rejected"] for t in searcher.study.get_trials(states=(TrialState.PRUNED,))]
    reasons = {reason for reason in rejected if not reason.startswith("the network of trial ")}
    assert reasons == ({"outside the constraints of the space"} if sampler == "plain optuna" else set())


class TestAskAndTell:
    @pytest.fixture
    def searcher(self) -> StudySearcher:
        return StudySearcher(Limits(chain_net()), random_search, seed=0)

    def test_a_score_that_is_no_number(self, searcher: StudySearcher) -> None:
        asked = searcher.ask(1)
        with pytest.raises(NotFiniteError, match="Got \\[nan\\]"):
            searcher.tell(asked, [[float("nan")]])
        assert searcher.finished() == []
        assert searcher.ask(1) == asked  # still waiting for its score
        searcher.tell(asked, [[0.5]])
        assert searcher.finished() == [Evaluated(asked[0], (0.5,))]

    def test_only_what_was_asked_for_and_only_once(self, searcher: StudySearcher) -> None:
        (asked,) = searcher.ask(1)
        other = next(a for a in searcher.space.enumerate() if a != asked)
        searcher.tell([asked], [[1.0]])
        for architecture in (asked, other):
            with pytest.raises(InvalidInput, match=r"an architecture that was asked for"):
                searcher.tell([architecture], [[1.0]])

    @pytest.mark.parametrize("scores", [[], [[1.0], [2.0]]])
    def test_one_row_of_scores_per_architecture(self, searcher: StudySearcher, scores: list[list[float]]) -> None:
        with pytest.raises(ValueError, match=r"zip"):
            searcher.tell(searcher.ask(1), scores)

    def test_failures_count_and_are_not_finished(self, searcher: StudySearcher) -> None:
        first, second = searcher.ask(2)
        searcher.tell_failure(first, "loss became NaN")
        searcher.tell([second], [[1.0]])
        assert searcher.count() == 2
        assert searcher.finished() == [Evaluated(second, (1.0,))]
        (failed,) = searcher.study.get_trials(states=(TrialState.FAIL,))
        assert failed.user_attrs["failure"] == "loss became NaN"

    def test_notes_stay_with_their_architecture(self, searcher: StudySearcher) -> None:
        asked = searcher.ask(2)
        searcher.tell(asked, [[1.0], [2.0]], notes=[{"seconds": 3}, {"other": "x"}])
        assert searcher.notes("seconds") == {asked[0]: 3}
        assert searcher.notes("other") == {asked[1]: "x"}

    @pytest.mark.parametrize("count", [0, -1])
    def test_asking_for_nothing(self, searcher: StudySearcher, count: int) -> None:
        with pytest.raises(InvalidInput, match=f"1 or more architectures. Got {count}"):
            searcher.ask(count)

    def test_no_best_before_the_first_score(self, searcher: StudySearcher) -> None:
        searcher.ask(1)
        with pytest.raises(InvalidInput, match="at least one scored architecture"):
            searcher.best()


def dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    """For (maximise, minimise): nowhere worse, somewhere better."""
    ours, theirs = (first[0], -first[1]), (second[0], -second[1])
    return ours != theirs and all(a >= b for a, b in zip(ours, theirs, strict=True))


def test_front_is_what_nothing_dominates() -> None:
    net = chain_net(4)
    searcher = StudySearcher(Limits(net), nsga2(population=8), goals=["maximise", "minimise"], seed=0)
    for _ in range(8):
        asked = searcher.ask(6)
        searcher.tell(asked, [[-additive(a), Parameters().score(net, a)] for a in asked])
    finished = searcher.finished()
    front = [a for a in finished if not any(dominates(b.values, a.values) for b in finished)]
    assert len(finished) == 48
    assert 1 < len(front) < 48
    assert sorted(searcher.best(), key=str) == sorted(front, key=str)


def test_plain_optuna_opens_the_file(tmp_path: Path) -> None:
    path = tmp_path / "search.db"
    searcher = search(StudySearcher(Limits(chain_net()), random_search, seed=0, storage=path, name="mine"), 5)
    study = optuna.load_study(study_name="mine", storage=f"sqlite:///{path}")
    (best,) = searcher.best()
    assert study.best_params == best.architecture.to_dict()
    assert [tuple(trial.values) for trial in study.trials] == [item.values for item in searcher.finished()]


def test_global_randomness_is_not_touched() -> None:
    net = chain_net()
    before = torch.get_rng_state()
    search(StudySearcher(Limits(net), SAMPLERS["evolution"], seed=0), 8)
    assert torch.equal(torch.get_rng_state(), before)
