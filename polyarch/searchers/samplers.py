"""Optuna samplers over whole architectures: random, exhaustive, regularised evolution and NSGA-II.

Real, Aggarwal, Huang and Le (2019), "Regularized Evolution for Image Classifier Architecture Search",
arXiv:1802.01548. Deb, Pratap, Agarwal and Meyarivan (2002), "A Fast and Elitist Multiobjective Genetic Algorithm:
NSGA-II", IEEE Transactions on Evolutionary Computation 6(2).
"""

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
"""User attribute of trials that were interrupted while Optuna created them; they are ignored."""

FRESH_DRAWS = 100
"""Draws spent on finding an architecture that was not proposed before."""

Accept = Callable[[Architecture], bool]


def search_space(space: Space) -> dict[str, BaseDistribution]:
    """The space for Optuna: one categorical parameter per choice, options by name."""
    return {choice.name: CategoricalDistribution(choice.options) for choice in space.choices}


class NothingLeft(Exception):
    """Every accepted architecture has been proposed."""


@dataclass(frozen=True)
class Proposed:
    """The architecture of an earlier trial, with its values if the trial is complete."""

    architecture: Architecture
    values: tuple[float, ...] | None


class ArchitectureSampler(BaseSampler):
    """Proposes accepted architectures; a draw depends only on the study and on (seed, number of proposals)."""

    def __init__(self, space: Space, *, seed: int, accept: Accept | None = None) -> None:
        self.space = space
        self.seed = seed
        self.accepts: Accept = accept or (lambda architecture: True)

    @abstractmethod
    def propose(self, past: Sequence[Proposed], *, maximise: bool, generator: Generator) -> Architecture:
        """The next architecture, given all earlier ones in order."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All choices are sampled together."""
        return search_space(self.space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Proposes an architecture as Optuna parameters."""
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
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Refuses parameters outside the space."""
        raise InvalidInput(f"Expected only the choices of space {self.space.name!r}. Got {param_name!r}.")

    def _draw(self, seen: set[Architecture], generator: Generator) -> Architecture:
        """An accepted uniform draw, and a new one if it turns up soon."""
        fallback = None
        for attempt in range(20 * FRESH_DRAWS):
            architecture = self.space.sample(generator)
            if self.accepts(architecture):
                if architecture not in seen:
                    return architecture
                fallback = architecture
            if fallback is not None and attempt >= FRESH_DRAWS:
                return fallback
        raise ImpossibleSpace(f"Expected an acceptable architecture in space {self.space.name!r}. Found none.")


class RandomSampler(ArchitectureSampler):
    """Uniform draws without repeats, as long as new architectures turn up."""

    def propose(self, past: Sequence[Proposed], *, maximise: bool, generator: Generator) -> Architecture:
        """Draws uniformly."""
        return self._draw({earlier.architecture for earlier in past}, generator)


class ExhaustiveSampler(ArchitectureSampler):
    """Every accepted architecture once, in the order of the space."""

    def propose(self, past: Sequence[Proposed], *, maximise: bool, generator: Generator) -> Architecture:
        """Proposes the first architecture that was not proposed before."""
        seen = {earlier.architecture for earlier in past}
        for architecture in self.space.enumerate():
            if architecture not in seen and self.accepts(architecture):
                return architecture
        raise NothingLeft


class RegularisedEvolution(ArchitectureSampler):
    """Ageing evolution: the winner of a random tournament among the youngest architectures is mutated once.

    Args:
        population: the number of latest completed architectures that are alive; the first as many are random.
        tournament: how many of them compete to become the parent.
    """

    def __init__(
        self, space: Space, *, seed: int, accept: Accept | None = None, population: int = 20, tournament: int = 5
    ) -> None:
        super().__init__(space, seed=seed, accept=accept)
        if not 1 <= tournament <= population:
            raise InvalidInput(f"Expected 1 <= tournament <= population. Got {tournament=}, {population=}.")
        self.population = population
        self.tournament = tournament

    def propose(self, past: Sequence[Proposed], *, maximise: bool, generator: Generator) -> Architecture:
        """Draws at random until the population is complete, then mutates a parent."""
        seen = {earlier.architecture for earlier in past}
        alive = [earlier for earlier in past if earlier.values is not None][-self.population :]
        if len(past) < self.population or not alive:
            return self._draw(seen, generator)
        rows = torch.randperm(len(alive), generator=generator)[: self.tournament].tolist()
        sign = 1 if maximise else -1
        parent = max((alive[row] for row in rows), key=lambda one: sign * (one.values or (0.0,))[0])
        for attempt in range(FRESH_DRAWS):
            try:
                child = mutate(parent.architecture, generator, accept=self.accepts)
            except ImpossibleSpace:
                break
            if child not in seen or attempt == FRESH_DRAWS - 1:
                return child
        return self._draw(seen, generator)


class OrderedNSGAII(NSGAIISampler):
    """Optuna's NSGA-II with the parents of a generation sorted by trial number.

    Optuna returns them by rank when it selects them and by number ever after, so a search killed in between would
    resume with other draws.
    """

    def select_parent(self, study: Study, generation: int) -> list[FrozenTrial]:
        """The survivors of the previous generation, sorted by number."""
        return sorted(super().select_parent(study, generation), key=lambda trial: trial.number)
