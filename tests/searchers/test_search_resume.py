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
from polyarch.searchers.searcher import PROPOSAL, MakeSampler
from polyarch.searchers.storage import open_storage
from polyarch.spaces import Architecture
from polyarch.supernets import ChainSupernet

optuna.logging.set_verbosity(optuna.logging.WARNING)

NET = ChainSupernet(
    channels=(2, 2, 2), kernels=(3,), expansions=(1, 2), in_channels=1, stem_channels=2, head_channels=2
)  # 27 architectures of 15 networks
LIMITS = Limits(NET, [Limit(Parameters(), sorted(Parameters().score(NET, a) for a in NET.space.enumerate())[22])])
EVALUATIONS = 8
WINDOW = 2

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


class Memory(InMemoryStorage):
    """Outlives every simulated process."""


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


def opened(sampler: str, storage: Path | Memory) -> StudySearcher:
    goals: list[Goal] = ["maximise", "minimise"] if sampler == "nsga2" else ["maximise"]
    return StudySearcher(LIMITS, SAMPLERS[sampler], goals=goals, seed=5, window=WINDOW, storage=storage)


def search(sampler: str, storage: Path | Memory, evaluations: int = EVALUATIONS) -> StudySearcher:
    """One process: opens the study, new or not, and goes on to the end. One of the architectures cannot be scored."""
    searcher = opened(sampler, storage)
    objectives = len(searcher.study.directions)
    while searcher.count() < evaluations and (asked := searcher.ask(min(WINDOW, evaluations - searcher.count()))):
        for architecture in asked[::-1]:
            if architecture.indices[:2] == (1, 1):
                searcher.tell_failure(architecture, "no score")
            else:
                values = score(architecture)[:objectives]
                searcher.tell([architecture], [values], notes=[{"told": architecture.key}])
    return searcher


def outcome(searcher: StudySearcher) -> list[tuple[object, ...]]:
    """All proposals in order: architecture, position, state, values, notes."""
    return [
        (trial.params, trial.user_attrs[PROPOSAL], trial.state, trial.values, trial.user_attrs.get("told"))
        for trial in searcher.study.get_trials(deepcopy=False)
        if PROPOSAL in trial.user_attrs
    ]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_killed_before_every_single_write(sampler: str) -> None:
    with killed_before(None, Memory) as writes:
        expected = outcome(search(sampler, Memory()))
    assert len(expected) >= EVALUATIONS
    assert len(writes) > 2.5 * EVALUATIONS
    for write in range(len(writes)):
        memory = Memory()
        with killed_before(write, Memory), pytest.raises(Killed):
            search(sampler, memory)
        assert outcome(search(sampler, memory)) == expected, f"killed before write {write}, {writes[write]}"


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_killed_again_and_again(sampler: str) -> None:
    """Every process gets 4 writes further than the one before."""
    expected = outcome(search(sampler, Memory()))
    memory = Memory()
    for attempt in range(1000):
        try:
            with killed_before(4, Memory):
                final = search(sampler, memory)
            break
        except Killed:
            assert attempt < 999
    assert attempt > 3
    assert outcome(final) == expected


@pytest.mark.parametrize(
    ("sampler", "name"),
    [
        ("nsga2", "study.db"),
        *((sampler, "study.journal") for sampler in SAMPLERS),
        *(pytest.param(sampler, "study.db", marks=pytest.mark.slow) for sampler in SAMPLERS if sampler != "nsga2"),
    ],
)
def test_killed_with_a_file(sampler: str, name: str, tmp_path: Path) -> None:
    """The same with files, for a few of the places."""
    empty = tmp_path / name
    opened(sampler, empty).close()
    storage = type(open_storage(empty))
    whole = Path(shutil.copy(empty, tmp_path / f"whole-{name}"))
    with killed_before(None, storage) as writes:
        expected = outcome(search(sampler, whole, 4))
    for write in range(3, len(writes), len(writes) // 2):
        path = Path(shutil.copy(empty, tmp_path / f"{write}-{name}"))
        with killed_before(write, storage), pytest.raises(Killed):
            search(sampler, path, 4)
        assert outcome(search(sampler, path, 4)) == expected, f"killed before write {write}, {writes[write]}"
