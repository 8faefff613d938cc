"""Search behind ask and tell, kept in an Optuna study that a killed run can go on with exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from polyarch.errors import ImpossibleSpace, InvalidInput, NotFiniteError
from polyarch.estimators import Goal
from polyarch.randomness import derive_seed
from polyarch.searchers.limits import ATTEMPTS, Limits
from polyarch.searchers.samplers import (
    ABANDONED,
    ExhaustiveSampler,
    NothingLeft,
    OrderedNSGAII,
    RandomSampler,
    RegularisedEvolution,
    search_space,
)
from polyarch.spaces import Architecture

BATCH = "batch"
"""User attribute of every trial that was asked for completely: the batch it belongs to."""

MakeSampler = Callable[[int, Limits], BaseSampler]
"""Makes a sampler from a seed and the limits it may use."""


@dataclass(frozen=True)
class Evaluated:
    """A finished architecture with one value per objective."""

    architecture: Architecture
    values: tuple[float, ...]


class Searcher(ABC):
    """Proposes architectures and learns their scores."""

    @abstractmethod
    def ask(self, n: int) -> list[Architecture]:
        """Up to n architectures to evaluate next; fewer when nothing is left, or when a resumed batch is."""

    @abstractmethod
    def tell(self, architectures: Sequence[Architecture], scores: Sequence[Sequence[float]]) -> None:
        """The scores, one number per objective, of architectures that were asked for."""

    @abstractmethod
    def finished(self) -> list[Evaluated]:
        """Everything told so far, in the order it was proposed."""


class StudySearcher(Searcher):
    """Optuna supplies sampler and storage; this adds hard limits and exact resumption.

    A new sampler is made for every proposal, seeded from (seed, number of proposals so far): nothing that a kill
    could lose is kept in memory. A batch is asked for completely before any of it is told, so proposals depend
    only on finished batches.

    Args:
        make_sampler: makes Optuna's or our samplers; see `random_search` and its neighbours.
        goals: one per objective.
        limits: nothing that breaks them is ever returned.
        storage: an SQLite file (optuna-dashboard can open it); in memory by default.
        name: the study's name within the file.
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
        directions = {"maximise": "maximize", "minimise": "minimize"}
        with _quiet_optuna():
            self.study = optuna.create_study(
                storage=f"sqlite:///{storage}" if storage else None,
                study_name=name,
                directions=[directions[goal] for goal in goals],  # type: ignore[misc]
                load_if_exists=True,
            )
        self._distributions = search_space(self.space)
        self._abandon_half_asked()

    def ask(self, n: int) -> list[Architecture]:
        """The next batch, or what is left of the batch that a kill cut short."""
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
        """Scores of asked architectures; ``notes`` are kept with them as user attributes."""
        for row, (architecture, values) in enumerate(zip(architectures, scores, strict=True)):
            trial = self._open_trial(architecture)
            if any(value != value for value in values):
                raise NotFiniteError(f"Expected numbers as scores of {architecture.key}. Got {list(values)}.")
            for key, value in (notes[row] if notes else {}).items():
                self._note(trial, key, value)
            self.study.tell(trial.number, list(values))

    def tell_failure(self, architecture: Architecture, reason: str) -> None:
        """The architecture could not be scored; it is not proposed as a parent."""
        trial = self._open_trial(architecture)
        self._note(trial, "failure", reason)
        self.study.tell(trial.number, state=TrialState.FAIL)

    def finished(self) -> list[Evaluated]:
        """Everything told so far."""
        trials = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return [Evaluated(self._architecture(trial), tuple(trial.values)) for trial in trials]

    def notes(self, name: str) -> dict[Architecture, Any]:
        """The notes of that name by architecture."""
        trials = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return {self._architecture(t): t.user_attrs[name] for t in trials if name in t.user_attrs}

    def count(self) -> int:
        """How many architectures have been scored or have failed."""
        return sum(trial.state.is_finished() for trial in self._proposed())

    def best(self) -> list[Evaluated]:
        """The best one, or with several objectives the Pareto front."""
        if not self.finished():
            raise InvalidInput("Expected at least one scored architecture. Got none.")
        return [Evaluated(self._architecture(t), tuple(t.values)) for t in self.study.best_trials]

    def _propose(self, batch: int) -> Architecture | None:
        for _ in range(ATTEMPTS):
            position = len(self.study.get_trials(deepcopy=False)) - self._abandoned_count()
            seed = derive_seed(self.seed, "ask", position) % 2**32
            self.study.sampler = self._make_sampler(seed, self.limits)
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
            if architecture in self.space:
                violation = self.limits.violation(architecture)
            else:
                violation = "outside the constraints of the space"
            if violation is None:
                trial.set_user_attr(BATCH, batch)
                return architecture
            # Optuna's own samplers know neither constraints nor limits: what lies outside is dropped, never scored.
            trial.set_user_attr("rejected", violation)
            self.study.tell(trial, state=TrialState.PRUNED)
        raise self.limits.impossible()

    def _proposed(self) -> list[FrozenTrial]:
        return [trial for trial in self.study.get_trials(deepcopy=False) if BATCH in trial.user_attrs]

    def _abandoned_count(self) -> int:
        return sum(ABANDONED in trial.user_attrs for trial in self.study.get_trials(deepcopy=False))

    def _abandon_half_asked(self) -> None:
        """Closes trials that a kill left without all their parameters or without a batch."""
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
        choices = self.space.choices
        return Architecture(self.space, tuple(choice.index(trial.params[choice.name]) for choice in choices))


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Without the line that tells of a new study; the caller's verbosity is put back."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def random_search(seed: int, limits: Limits) -> BaseSampler:
    """Uniform draws."""
    return RandomSampler(limits.net.space, seed=seed, accept=limits.allows)


def exhaustive_search(seed: int, limits: Limits) -> BaseSampler:
    """Every allowed architecture once."""
    return ExhaustiveSampler(limits.net.space, seed=seed, accept=limits.allows)


def evolution(population: int = 20, tournament: int = 5) -> MakeSampler:
    """Regularised evolution."""

    def make(seed: int, limits: Limits) -> BaseSampler:
        return RegularisedEvolution(
            limits.net.space,
            seed=seed,
            accept=limits.allows,
            population=population,
            tournament=tournament,
        )

    return make


def nsga2(population: int = 20) -> MakeSampler:
    """NSGA-II, Optuna's own, for several objectives."""

    def make(seed: int, limits: Limits) -> BaseSampler:
        return OrderedNSGAII(population_size=population, seed=seed)

    return make
