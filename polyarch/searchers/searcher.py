"""Ask-and-tell search in an Optuna study, from which a killed run resumes exactly."""

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from polyarch.errors import CorruptFile, ImpossibleSpace, InvalidInput, NotFiniteError, PolyarchError, first_line
from polyarch.estimators import Goal
from polyarch.randomness import derive_seed
from polyarch.searchers.lease import Lease
from polyarch.searchers.limits import Limits
from polyarch.searchers.samplers import (
    DistinctNSGAII,
    ExhaustiveSampler,
    NothingLeft,
    RandomSampler,
    RegularisedEvolution,
    architecture_of,
    search_space,
)
from polyarch.searchers.storage import open_storage, study_in
from polyarch.spaces import Architecture

PROPOSAL = "proposal"
"""User attribute of the trials that are returned: their position among these."""

EARLIER = "batch"
"""What it was before polyarch 0.8."""

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
        """Up to n architectures to score next, those first that were asked for and not told.

        They are fewer where networks run out, or where further proposals wait for results.
        """

    @abstractmethod
    def tell(self, architectures: Sequence[Architecture], scores: Sequence[Sequence[float]]) -> None:
        """Reports the scores of architectures that were asked for, one number per objective."""

    @abstractmethod
    def finished(self) -> list[Evaluated]:
        """All scored architectures in the order of their proposal."""


@contextmanager
def reading_study(storage: Path | str) -> Iterator[None]:
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


def _refuse_full_disk(error: BaseException, storage: Path | str | BaseStorage) -> None:
    """Raises what other files raise on a full disk; SQLite only says so in the text of its error."""
    if "disk is full" in str(error) or "disk is full" in str(error.__cause__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(storage)) from None


@dataclass
class _Proposal:
    """An architecture that was proposed, its trial in the storage, and what became of it."""

    architecture: Architecture
    trial: int
    number: int
    state: TrialState = TrialState.RUNNING
    values: tuple[float, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)


class StudySearcher(Searcher):
    """Adds hard limits, one proposal per network, a window and exact resumption to Optuna's samplers and storages.

    Architectures of the same canonical form are the same network, and only the first of them is returned. Proposal k is
    made of the results of proposals 0..k-L alone, L being the window: up to L architectures can be scored at a time,
    and what is proposed does not depend on the order in which they finish. Every proposal gets a new sampler, seeded
    from (seed, number of proposals so far), which reads a copy of the study in memory that has the results up to the
    window. The storage has everything else, so that no state in memory can be lost.

    Args:
        limits: architectures that exceed them are never returned.
        make_sampler: `random_search`, `exhaustive_search`, or what `evolution` and `nsga2` return.
        goals: one per objective.
        window: L.
        storage: what `open_storage` opens, which optuna-dashboard can, too; in memory by default. Two processes cannot
            search in one study.
        name: of the study within the storage.
    """

    def __init__(
        self,
        limits: Limits,
        make_sampler: MakeSampler,
        *,
        goals: Sequence[Goal] = ("maximise",),
        seed: int,
        window: int = 10,
        storage: Path | str | BaseStorage | None = None,
        name: str = "search",
    ) -> None:
        if window < 1:
            raise InvalidInput(f"Expected a window of 1 or more architectures. Got {window}.")
        self.limits = limits
        self.space = limits.net.space
        self.seed = seed
        self.window = window
        self._make_sampler = make_sampler
        self._distributions = search_space(self.space)
        self._directions = ["maximize" if goal == "maximise" else "minimize" for goal in goals]
        try:
            self._storage = storage if isinstance(storage, BaseStorage) else open_storage(storage)
            self.study = study_in(self._storage, name, self._directions)
            self._study = self._storage.get_study_id_from_name(name)
            self._lease = None if isinstance(self._storage, InMemoryStorage) else Lease(self._storage, name)
            self._read()
        except PolyarchError:
            raise
        except Exception as error:  # damaged bytes make SQLite, SQLAlchemy and Optuna raise all kinds of errors
            if storage is None:
                raise
            _refuse_full_disk(error, storage)
            found = first_line(error)
            raise CorruptFile(f"Expected {storage} to be the study {name!r} of a search. Found: {found}.") from None

    def _read(self) -> None:
        """Reads the proposals of the study; what is neither a proposal nor rejected is not of this class."""
        trials = self.study.get_trials(deepcopy=False)
        known = [trial for trial in trials if {PROPOSAL, EARLIER, REJECTED} & trial.user_attrs.keys()]
        self._proposals: list[_Proposal] = []
        for trial in known:
            if REJECTED not in trial.user_attrs:
                identity = self._storage.get_trial_id_from_study_id_trial_number(self._study, trial.number)
                values = tuple(trial.values) if trial.state == TrialState.COMPLETE else ()
                notes = {key: value for key, value in trial.user_attrs.items() if key != PROPOSAL}
                architecture = architecture_of(self.space, trial.params)
                proposal = _Proposal(architecture, identity, trial.number, trial.state, values, notes)
                self._proposals.append(proposal)
        self._networks = {one.architecture.canonical(): one.number for one in self._proposals}
        self._waiting = {one.architecture: one for one in self._proposals if not one.state.is_finished()}
        self._show(known)

    def _show(self, trials: Sequence[FrozenTrial]) -> None:
        """Begins a copy of the study in memory, for samplers; results of proposals come later, as the window goes on.

        What samplers have noted about the study is copied; they name trials by the numbers in this copy.
        """
        self._shown_storage = InMemoryStorage()
        self._shown = study_in(self._shown_storage, "shown", self._directions)
        self._shown_study = self._shown_storage.get_study_id_from_name("shown")
        self._revealed = 0
        self._rejected_in_a_row = 0
        for trial in trials:
            rejected = REJECTED in trial.user_attrs
            self._shown.add_trial(self._trial(trial.params, {}, trial.system_attrs, rejected=rejected))
            self._rejected_in_a_row = self._rejected_in_a_row + 1 if rejected else 0
        self._places = [place for place, trial in enumerate(trials) if REJECTED not in trial.user_attrs]
        self._attributes = self._storage.get_study_system_attrs(self._study)
        for key, value in self._attributes.items():
            self._shown_storage.set_study_system_attr(self._shown_study, key, value)

    def _trial(
        self, parameters: Mapping[str, Any], notes: Mapping[str, Any], system: Mapping[str, Any], *, rejected: bool
    ) -> FrozenTrial:
        return create_trial(
            state=TrialState.PRUNED if rejected else TrialState.RUNNING,
            params=dict(parameters),
            distributions=self._distributions,
            user_attrs=dict(notes),
            system_attrs=dict(system),
        )

    def close(self) -> None:
        """Lets other processes search in the study."""
        if self._lease is not None:
            self._lease.close()

    def ask(self, n: int) -> list[Architecture]:
        """Up to n architectures without a score: those that were asked for before, then new ones within the window."""
        if n < 1:
            raise InvalidInput(f"Expected to ask for 1 or more architectures. Got {n}.")
        self._check_lease()
        while len(self._waiting) < n and self._propose():
            pass
        return list(islice(self._waiting, n))

    def tell(
        self,
        architectures: Sequence[Architecture],
        scores: Sequence[Sequence[float]],
        *,
        notes: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Reports scores of asked architectures; ``notes`` are stored with them as user attributes."""
        for row, (architecture, values) in enumerate(zip(architectures, scores, strict=True)):
            proposal = self._waiting_proposal(architecture)
            if any(value != value for value in values):
                raise NotFiniteError(f"Expected numbers as scores of {architecture.key}. Got {list(values)}.")
            if len(values) != len(self._directions):
                raise InvalidInput(f"Expected {len(self._directions)} scores of {architecture.key}. Got {len(values)}.")
            self._finish(proposal, TrialState.COMPLETE, tuple(map(float, values)), notes[row] if notes else {})

    def tell_failure(self, architecture: Architecture, reason: str) -> None:
        """Reports an architecture that could not be scored; it will not become a parent."""
        self._finish(self._waiting_proposal(architecture), TrialState.FAIL, (), {"failure": reason})

    def finished(self) -> list[Evaluated]:
        """All scored architectures in the order of their proposal."""
        return [Evaluated(one.architecture, one.values) for one in self._proposals if one.values]

    def notes(self, name: str) -> dict[Architecture, Any]:
        """Architecture -> its note of that name, where it has one."""
        return {one.architecture: one.notes[name] for one in self._proposals if one.values and name in one.notes}

    def count(self) -> int:
        """The number of architectures that were scored or failed."""
        return len(self._proposals) - len(self._waiting)

    def best(self) -> list[Evaluated]:
        """The best architecture, or the front of several objectives."""
        if not self.finished():
            raise InvalidInput("Expected at least one scored architecture. Got none.")
        return [
            Evaluated(architecture_of(self.space, trial.params), tuple(trial.values))
            for trial in self.study.best_trials
        ]

    def _propose(self) -> bool:
        """Makes the next proposal; False if a result within the window is missing, or no network is left."""
        visible = max(len(self._proposals) - self.window + 1, 0)
        if any(not one.state.is_finished() for one in self._proposals[self._revealed : visible]):
            return False
        while True:
            past = self._shown_storage.get_n_trials(self._shown_study)
            seed = derive_seed(self.seed, "ask", past) % 2**32
            # A sampler that keeps proposing what is rejected is helped out by one that knows limits and past.
            make_sampler = self._make_sampler if self._rejected_in_a_row < REJECTIONS else random_search
            self._shown.sampler = make_sampler(seed, self.limits)
            self._reveal(visible)
            try:
                trial = self._shown.ask(fixed_distributions=self._distributions)
            except (NothingLeft, ImpossibleSpace) as error:
                self._read()  # without the trial that has no parameters
                if isinstance(error, NothingLeft) and self._proposals:
                    return False
                raise self.limits.impossible() from None
            architecture = architecture_of(self.space, trial.params)
            reason = self._objection(architecture)
            self._keep(trial, architecture, reason)
            if reason is None:
                return True
            # A user's sampler may know neither constraints, limits nor networks: such proposals are dropped unscored.
            self._shown.tell(trial, state=TrialState.PRUNED)

    def _reveal(self, visible: int) -> None:
        """Tells the samplers' copy of the study the results of the first proposals."""
        for proposal, place in zip(
            self._proposals[self._revealed : visible], self._places[self._revealed : visible], strict=True
        ):
            self._shown.tell(place, list(proposal.values) or None, state=proposal.state)
        self._revealed = max(self._revealed, visible)

    def _keep(self, trial: Trial, architecture: Architecture, reason: str | None) -> None:
        """Writes a new trial, and what its sampler has noted, to the storage."""
        attributes = self._shown_storage.get_study_system_attrs(self._shown_study)
        for key, value in attributes.items():
            if self._attributes.get(key) != value:
                self._storage.set_study_system_attr(self._study, key, value)
        self._attributes = attributes
        identity = self._shown_storage.get_trial_id_from_study_id_trial_number(self._shown_study, trial.number)
        system = self._shown_storage.get_trial(identity).system_attrs
        note = {PROPOSAL: len(self._proposals)} if reason is None else {REJECTED: reason}
        kept = self._trial(trial.params, note, system, rejected=reason is not None)
        identity = self._storage.create_new_trial(self._study, template_trial=kept)
        self._rejected_in_a_row = 0 if reason is None else self._rejected_in_a_row + 1
        if reason is None:
            number = self._storage.get_trial_number_from_id(identity)
            proposal = _Proposal(architecture, identity, number)
            self._proposals.append(proposal)
            self._places.append(trial.number)
            self._networks[architecture.canonical()] = number
            self._waiting[architecture] = proposal

    def _finish(
        self, proposal: _Proposal, state: TrialState, values: tuple[float, ...], notes: Mapping[str, Any]
    ) -> None:
        self._check_lease()
        for key, value in notes.items():
            self._storage.set_trial_user_attr(proposal.trial, key, value)
            proposal.notes[key] = value
        self._storage.set_trial_state_values(proposal.trial, state, values or None)
        proposal.state, proposal.values = state, values
        del self._waiting[proposal.architecture]

    def _objection(self, architecture: Architecture) -> str | None:
        """Why an architecture is not returned."""
        if architecture not in self.space:
            return "outside the constraints of the space"
        if architecture.canonical() in self._networks:
            return f"the network of trial {self._networks[architecture.canonical()]}"
        return self.limits.violation(architecture)

    def _waiting_proposal(self, architecture: Architecture) -> _Proposal:
        if architecture not in self._waiting:
            raise InvalidInput(f"Expected an architecture that was asked for. Got {architecture.key}.")
        return self._waiting[architecture]

    def _check_lease(self) -> None:
        if self._lease is not None:
            self._lease.check()


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
