"""Ask-and-tell search in an Optuna study, from which a killed run resumes exactly."""

import errno
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from polyarch.errors import CorruptFile, ImpossibleSpace, InvalidInput, NotFiniteError, PolyarchError, first_line
from polyarch.estimators import Goal
from polyarch.randomness import derive_seed
from polyarch.searchers.limits import Limits
from polyarch.searchers.samplers import (
    ABANDONED,
    DistinctNSGAII,
    ExhaustiveSampler,
    NothingLeft,
    RandomSampler,
    RegularisedEvolution,
    architecture_of,
    search_space,
)
from polyarch.spaces import Architecture

BATCH = "batch"
"""User attribute of every trial that was created completely: the batch it belongs to."""

REJECTED = "rejected"
"""User attribute of trials that are not returned, with the reason: beyond a limit, or the network of another trial."""

REJECTIONS = 20
"""Rejected proposals in a row after which the next one is random."""

MakeSampler = Callable[[int, Limits], BaseSampler]
"""(seed, limits) -> sampler."""


@dataclass(frozen=True)
class Evaluated:
    """A scored architecture with one value per objective."""

    architecture: Architecture
    values: tuple[float, ...]


class Searcher(ABC):
    """Proposes architectures and learns their scores."""

    @abstractmethod
    def ask(self, n: int) -> list[Architecture]:
        """Up to n architectures to score next; fewer where networks run out, or at the end of a resumed batch."""

    @abstractmethod
    def tell(self, architectures: Sequence[Architecture], scores: Sequence[Sequence[float]]) -> None:
        """Reports the scores of architectures that were asked for, one number per objective."""

    @abstractmethod
    def finished(self) -> list[Evaluated]:
        """All scored architectures in the order of their proposal."""


@contextmanager
def reading_study(storage: Path) -> Iterator[None]:
    """Turns errors of the data base in the block into one sentence that names its file."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        _refuse_full_disk(error, storage)
        reason = getattr(error, "orig", None) or error
        raise CorruptFile(
            f"Expected {storage} to be a readable Optuna study. Found: {first_line(reason)}; if it is damaged, remove "
            "it to search again."
        ) from None


def _refuse_full_disk(error: BaseException, storage: Path) -> None:
    """Raises what other files raise on a full disk; SQLite only says so in the text of its error."""
    if "disk is full" in str(error) or "disk is full" in str(error.__cause__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(storage)) from None


class StudySearcher(Searcher):
    """Adds hard limits, one proposal per network and exact resumption to Optuna's samplers and storage.

    Architectures of the same canonical form are the same network, and only the first of them is returned. Every
    proposal gets a new sampler, seeded from (seed, number of proposals so far): no state in memory can be lost.
    A batch is created completely before any of its scores arrive, so proposals depend only on finished batches.

    Args:
        limits: architectures that exceed them are never returned.
        make_sampler: `random_search`, `exhaustive_search`, or what `evolution` and `nsga2` return.
        goals: one per objective.
        storage: an SQLite file, which optuna-dashboard can open; in memory by default.
        name: of the study within the file.
    """

    def __init__(
        self,
        limits: Limits,
        make_sampler: MakeSampler,
        *,
        goals: Sequence[Goal] = ("maximise",),
        seed: int,
        storage: Path | None = None,
        name: str = "search",
    ) -> None:
        self.limits = limits
        self.space = limits.net.space
        self.seed = seed
        self._make_sampler = make_sampler
        self._distributions = search_space(self.space)
        try:
            self.study = self._open(goals, storage, name)
            self._abandon_half_asked()
            self.finished()  # reads all of it
        except PolyarchError:
            raise
        except Exception as error:  # damaged bytes make SQLite, SQLAlchemy and Optuna raise all kinds of errors
            if storage is None:
                raise
            _refuse_full_disk(error, storage)
            found = first_line(error)
            raise CorruptFile(f"Expected {storage} to be the study {name!r} of a search. Found: {found}.") from None

    def _open(self, goals: Sequence[Goal], storage: Path | None, name: str) -> optuna.Study:
        directions = {"maximise": "maximize", "minimise": "minimize"}
        with _quiet_optuna():
            return optuna.create_study(
                storage=f"sqlite:///{storage}" if storage else None,
                study_name=name,
                directions=[directions[goal] for goal in goals],  # type: ignore[misc]
                load_if_exists=True,
            )

    def ask(self, n: int) -> list[Architecture]:
        """The next batch, or the rest of an interrupted one."""
        if n < 1:
            raise InvalidInput(f"Expected to ask for 1 or more architectures. Got {n}.")
        proposed = self._proposed()
        batch = max((trial.user_attrs[BATCH] for trial in proposed), default=0)
        members = [trial for trial in proposed if trial.user_attrs[BATCH] == batch]
        if members and all(trial.state.is_finished() for trial in members):
            batch, members = batch + 1, []
        told = any(trial.state.is_finished() for trial in members)
        waiting = [trial for trial in members if not trial.state.is_finished()]
        asked = [self._architecture(trial) for trial in waiting]
        while not told and len(asked) < n:
            architecture = self._propose(batch)
            if architecture is None:
                break
            asked.append(architecture)
        return asked[:n]

    def tell(
        self,
        architectures: Sequence[Architecture],
        scores: Sequence[Sequence[float]],
        *,
        notes: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Reports scores of asked architectures; ``notes`` are stored with them as user attributes."""
        for row, (architecture, values) in enumerate(zip(architectures, scores, strict=True)):
            trial = self._open_trial(architecture)
            if any(value != value for value in values):
                raise NotFiniteError(f"Expected numbers as scores of {architecture.key}. Got {list(values)}.")
            for key, value in (notes[row] if notes else {}).items():
                self._note(trial, key, value)
            self.study.tell(trial.number, list(values))

    def tell_failure(self, architecture: Architecture, reason: str) -> None:
        """Reports an architecture that could not be scored; it will not become a parent."""
        trial = self._open_trial(architecture)
        self._note(trial, "failure", reason)
        self.study.tell(trial.number, state=TrialState.FAIL)

    def finished(self) -> list[Evaluated]:
        """All scored architectures in the order of their proposal."""
        trials = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return [Evaluated(self._architecture(trial), tuple(trial.values)) for trial in trials]

    def notes(self, name: str) -> dict[Architecture, Any]:
        """Architecture -> its note of that name, where it has one."""
        trials = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return {self._architecture(t): t.user_attrs[name] for t in trials if name in t.user_attrs}

    def count(self) -> int:
        """The number of architectures that were scored or failed."""
        return sum(trial.state.is_finished() for trial in self._proposed())

    def best(self) -> list[Evaluated]:
        """The best architecture, or the front of several objectives."""
        if not self.finished():
            raise InvalidInput("Expected at least one scored architecture. Got none.")
        return [Evaluated(self._architecture(t), tuple(t.values)) for t in self.study.best_trials]

    def _propose(self, batch: int) -> Architecture | None:
        """The next architecture; None if no network is left."""
        seen = {self._architecture(trial).canonical(): trial.number for trial in self._proposed()}
        while True:
            past = [trial for trial in self.study.get_trials(deepcopy=False) if ABANDONED not in trial.user_attrs]
            seed = derive_seed(self.seed, "ask", len(past)) % 2**32
            in_a_row = sum(1 for _ in itertools.takewhile(lambda trial: REJECTED in trial.user_attrs, reversed(past)))
            # A sampler that keeps proposing what is rejected is helped out by one that knows limits and past.
            make_sampler = self._make_sampler if in_a_row < REJECTIONS else random_search
            self.study.sampler = make_sampler(seed, self.limits)
            try:
                trial = self.study.ask(fixed_distributions=self._distributions)
            except NothingLeft:
                self._abandon_half_asked()
                if not self._proposed():
                    raise self.limits.impossible() from None
                return None
            except ImpossibleSpace:
                self._abandon_half_asked()
                raise self.limits.impossible() from None
            architecture = self._architecture(trial)
            reason = self._objection(architecture, seen)
            if reason is None:
                trial.set_user_attr(BATCH, batch)
                return architecture
            # A user's sampler may know neither constraints, limits nor networks: such proposals are dropped unscored.
            trial.set_user_attr(REJECTED, reason)
            self.study.tell(trial, state=TrialState.PRUNED)

    def _objection(self, architecture: Architecture, seen: Mapping[str, int]) -> str | None:
        """Why an architecture is not returned; ``seen`` has the trials of the proposed networks."""
        if architecture not in self.space:
            return "outside the constraints of the space"
        if architecture.canonical() in seen:
            return f"the network of trial {seen[architecture.canonical()]}"
        return self.limits.violation(architecture)

    def _proposed(self) -> list[FrozenTrial]:
        return [trial for trial in self.study.get_trials(deepcopy=False) if BATCH in trial.user_attrs]

    def _abandon_half_asked(self) -> None:
        """Closes trials that a kill left without some parameters or without a batch."""
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if BATCH not in trial.user_attrs:
                self._note(trial, ABANDONED, True)
                self.study.tell(trial.number, state=TrialState.FAIL)

    def _open_trial(self, architecture: Architecture) -> FrozenTrial:
        for trial in self._proposed():
            if not trial.state.is_finished() and self._architecture(trial) == architecture:
                return trial
        raise InvalidInput(f"Expected an architecture that was asked for. Got {architecture.key}.")

    def _note(self, trial: FrozenTrial, key: str, value: Any) -> None:
        Trial(self.study, trial._trial_id).set_user_attr(key, value)

    def _architecture(self, trial: FrozenTrial | Trial) -> Architecture:
        return architecture_of(self.space, trial.params)


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Suppresses Optuna's message about a new study."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def random_search(seed: int, limits: Limits) -> BaseSampler:
    """Proposes uniform draws."""
    return RandomSampler(limits.net.space, seed=seed, accept=limits.allows)


def exhaustive_search(seed: int, limits: Limits) -> BaseSampler:
    """Proposes every allowed network once."""
    return ExhaustiveSampler(limits.net.space, seed=seed, accept=limits.allows)


def evolution(population: int = 20, tournament: int = 5) -> MakeSampler:
    """Proposes mutations by `RegularisedEvolution`."""
    return lambda seed, limits: RegularisedEvolution(
        limits.net.space, seed=seed, accept=limits.allows, population=population, tournament=tournament
    )


def nsga2(population: int = 20) -> MakeSampler:
    """NSGA-II, for several objectives."""
    return lambda seed, limits: DistinctNSGAII(limits.net.space, seed=seed, accept=limits.allows, population=population)
