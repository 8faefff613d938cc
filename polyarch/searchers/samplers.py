"""Our Optuna samplers: random, exhaustive and regularised evolution over whole architectures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, NSGAIISampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from torch import Generator

from polyarch.errors import ImpossibleSpace, InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Space, mutate

ABANDONED = "abandoned"
"""User attribute of trials that were cut off while being asked for; they count for nothing."""

FRESH_DRAWS = 100
"""Draws spent on finding an architecture that has not been proposed yet."""

Accept = Callable[[Architecture], bool]


def search_space(space: Space) -> dict[str, BaseDistribution]:
    """A space in Optuna's words: one categorical per choice, options by name."""
    return {choice.name: CategoricalDistribution(choice.options) for choice in space.choices}


class NothingLeft(Exception):
    """Every allowed architecture has been proposed."""


@dataclass(frozen=True)
class Proposed:
    """An architecture of an earlier trial, with its values once it is finished."""

    architecture: Architecture
    values: tuple[float, ...] | None


class ArchitectureSampler(BaseSampler):
    """Proposes whole architectures. What it draws depends on (seed, number of earlier proposals) and the study.

    Args:
        accept: narrows the proposals, e.g. to those that keep hard limits.
    """

    def __init__(self, space: Space, *, seed: int, accept: Accept | None = None) -> None:
        self.space = space
        self.seed = seed
        self._accept = accept

    @abstractmethod
    def propose(self, past: Sequence[Proposed], *, maximise: bool, generator: Generator) -> Architecture:
        """The next architecture, given all earlier ones in order."""

    def accepts(self, architecture: Architecture) -> bool:
        """Whether an architecture may be proposed."""
        return self._accept is None or self._accept(architecture)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All choices together."""
        return search_space(self.space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The proposal as Optuna's parameters."""
        past = [
            Proposed(
                self.space.architecture(other.params),
                tuple(other.values) if other.state == TrialState.COMPLETE and other.values else None,
            )
            for other in study.get_trials(deepcopy=False)
            if other.number != trial.number
            and len(other.params) == len(self.space.choices)
            and ABANDONED not in other.user_attrs
        ]
        generator = generator_at(self.seed, "propose", len(past))
        maximise = study.directions[0] == StudyDirection.MAXIMIZE
        return self.propose(past, maximise=maximise, generator=generator).to_dict()

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Parameters outside the space are a mistake."""
        raise InvalidInput(f"Expected only the choices of space {self.space.name!r}. Got {param_name!r}.")

    def _draw(self, seen: set[Architecture], generator: Generator) -> Architecture:
        """A uniform draw that is allowed, and new if one is found soon."""
        fallback = None
        for attempt in range(20 * FRESH_DRAWS):
            architecture = self.space.sample(generator)
            if self.accepts(architecture):
                if architecture not in seen:
                    return architecture
                fallback = architecture
            if fallback is not None and attempt >= FRESH_DRAWS:
                return fallback
        raise ImpossibleSpace(f"Expected an allowed architecture in space {self.space.name!r}. Found none.")


class RandomSampler(ArchitectureSampler):
    """Uniform draws, without repeats while there is something new to find."""

    def propose(self, past: Sequence[Proposed], *, maximise: bool, generator: Generator) -> Architecture:
        """A uniform draw."""
        return self._draw({item.architecture for item in past}, generator)


class ExhaustiveSampler(ArchitectureSampler):
    """Every allowed architecture once, in the order of the space."""

    def propose(self, past: Sequence[Proposed], *, maximise: bool, generator: Generator) -> Architecture:
        """The first one not yet proposed."""
        seen = {item.architecture for item in past}
        for architecture in self.space.enumerate():
            if architecture not in seen and self.accepts(architecture):
                return architecture
        raise NothingLeft


class RegularisedEvolution(ArchitectureSampler):
    """Ageing evolution (Real et al., 2019): the best of a random tournament among the youngest is mutated once.

    Args:
        population: how many of the latest finished architectures are alive; as many random ones come first.
        tournament: how many of them compete to be the parent.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        accept: Accept | None = None,
        population: int = 20,
        tournament: int = 5,
    ) -> None:
        super().__init__(space, seed=seed, accept=accept)
        if not 1 <= tournament <= population:
            raise InvalidInput(f"Expected 1 <= tournament <= population. Got {tournament=}, {population=}.")
        self.population = population
        self.tournament = tournament

    def propose(self, past: Sequence[Proposed], *, maximise: bool, generator: Generator) -> Architecture:
        """A random architecture at first, then a mutated parent."""
        seen = {item.architecture for item in past}
        alive = [item for item in past if item.values is not None][-self.population :]
        if len(past) < self.population or not alive:
            return self._draw(seen, generator)
        rows = torch.randperm(len(alive), generator=generator)[: self.tournament].tolist()
        sign = 1 if maximise else -1
        parent = max((alive[row] for row in rows), key=lambda item: sign * (item.values or (0.0,))[0])
        for attempt in range(FRESH_DRAWS):
            try:
                child = mutate(parent.architecture, generator, accept=self.accepts)
            except ImpossibleSpace:
                break
            if child not in seen or attempt == FRESH_DRAWS - 1:
                return child
        return self._draw(seen, generator)


class OrderedNSGAII(NSGAIISampler):
    """Optuna's NSGA-II with the parents of a generation in the order of their numbers.

    Optuna hands them out by rank when they are chosen and by number ever after: a search killed in between would
    draw others.
    """

    def select_parent(self, study: Study, generation: int) -> list[FrozenTrial]:
        """The survivors of the generation before, sorted."""
        return sorted(super().select_parent(study, generation), key=lambda trial: trial.number)
