"""A search that is killed anywhere and opened again proposes and keeps the same as one that never stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import BaseStorage, InMemoryStorage

from polyarch.estimators import Goal, Parameters
from polyarch.searchers import Limit, Limits, StudySearcher, evolution, exhaustive_search, nsga2, random_search
from polyarch.searchers.searcher import BATCH, MakeSampler
from polyarch.spaces import Architecture
from polyarch.supernets import ChainSupernet

optuna.logging.set_verbosity(optuna.logging.WARNING)

NET = ChainSupernet(
    channels=(2, 2, 2), kernels=(3,), expansions=(1, 2), in_channels=1, stem_channels=2, head_channels=2
)  # 27 architectures of 15 networks
LIMITS = Limits(NET, [Limit(Parameters(), sorted(Parameters().score(NET, a) for a in NET.space.enumerate())[22])])
EVALUATIONS = 8
BATCH_SIZE = 2

SAMPLERS: dict[str, MakeSampler] = {
    "random": random_search,
    "exhaustive": exhaustive_search,
    "evolution": evolution(population=2, tournament=2),
    "nsga2": nsga2(population=2),
    "plain optuna": lambda seed, limits: optuna.samplers.RandomSampler(seed=seed),  # most of its proposals are rejected
}

WRITES = (
    "create_new_study", "create_new_trial", "set_trial_param", "set_trial_user_attr", "set_trial_system_attr",
    "set_study_user_attr", "set_study_system_attr", "set_trial_state_values",
)  # fmt: skip


class Killed(BaseException):
    """The end of a process in front of a write."""


@contextmanager
def killed_before(write: int | None, storage: type[BaseStorage]) -> Iterator[list[str]]:
    """Lets that many writes to the storage happen, and notes them; ``None`` lets all of them happen."""
    done: list[str] = []

    def wrap(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*arguments: Any, **options: Any) -> Any:
            if len(done) == write:
                raise Killed
            done.append(name)
            return method(*arguments, **options)

        return checked

    with pytest.MonkeyPatch.context() as patch:
        for name in WRITES:
            patch.setattr(storage, name, wrap(name, getattr(storage, name)))
        yield done


def score(architecture: Architecture) -> list[float]:
    return [float(7 * architecture.indices[0] + 2 * architecture.indices[1] % 5), sum(architecture.indices)]


def opened(sampler: str, storage: Path | None = None) -> StudySearcher:
    goals: list[Goal] = ["maximise", "minimise"] if sampler == "nsga2" else ["maximise"]
    return StudySearcher(LIMITS, SAMPLERS[sampler], goals=goals, seed=5, storage=storage)


def search(sampler: str, storage: Path | None = None, evaluations: int = EVALUATIONS) -> StudySearcher:
    """One process: opens the study, new or not, and goes on to the end. One of the architectures cannot be scored."""
    searcher = opened(sampler, storage)
    objectives = len(searcher.study.directions)
    while searcher.count() < evaluations and (asked := searcher.ask(BATCH_SIZE)):
        for architecture in asked:
            if architecture.indices[:2] == (1, 1):
                searcher.tell_failure(architecture, "no score")
            else:
                values = score(architecture)[:objectives]
                searcher.tell([architecture], [values], notes=[{"told": architecture.key}])
    return searcher


def outcome(searcher: StudySearcher) -> list[tuple[object, ...]]:
    """All proposals in order: architecture, batch, state, values, notes."""
    return [
        (trial.params, trial.user_attrs[BATCH], trial.state, trial.values, trial.user_attrs.get("told"))
        for trial in searcher.study.get_trials(deepcopy=False)
        if BATCH in trial.user_attrs
    ]


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Studies live in one storage in memory that outlives every simulated process; the call empties it."""
    current: dict[str, BaseStorage] = {}
    create = optuna.create_study
    monkeypatch.setattr(optuna, "create_study", lambda **options: create(**{**options, **current}))

    def clear() -> None:
        current["storage"] = InMemoryStorage()

    clear()
    return clear


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_killed_before_every_single_write(sampler: str, memory: Callable[[], None]) -> None:
    with killed_before(None, InMemoryStorage) as writes:
        expected = outcome(search(sampler))
    assert len(expected) >= EVALUATIONS
    assert len(writes) > 5 * EVALUATIONS
    for write in range(len(writes)):
        memory()
        with killed_before(write, InMemoryStorage), pytest.raises(Killed):
            search(sampler)
        assert outcome(search(sampler)) == expected, f"killed before write {write}, {writes[write]}"


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_killed_again_and_again(sampler: str, memory: Callable[[], None]) -> None:
    """Every process gets 14 writes further than the one before, clearing up included."""
    expected = outcome(search(sampler))
    memory()
    for attempt in range(1000):
        try:
            with killed_before(14, InMemoryStorage):
                final = search(sampler)
            break
        except Killed:
            assert attempt < 999
    assert attempt > 3
    assert outcome(final) == expected


@pytest.mark.parametrize(
    "sampler", ["nsga2", *(pytest.param(name, marks=pytest.mark.slow) for name in SAMPLERS if name != "nsga2")]
)
def test_killed_with_a_file(sampler: str, tmp_path: Path) -> None:
    """The same with SQLite, for a few of the places."""
    empty = tmp_path / "empty.db"
    opened(sampler, empty)
    storage = type(optuna.storages.get_storage(f"sqlite:///{empty}"))
    shutil.copy(empty, tmp_path / "whole.db")
    with killed_before(None, storage) as writes:
        expected = outcome(search(sampler, tmp_path / "whole.db", 4))
    for write in range(3, len(writes), len(writes) // 2):
        path = Path(shutil.copy(empty, tmp_path / f"{write}.db"))
        with killed_before(write, storage), pytest.raises(Killed):
            search(sampler, path, 4)
        assert outcome(search(sampler, path, 4)) == expected, f"killed before write {write}, {writes[write]}"
