"""Optuna samplers over whole architectures: random, exhaustive, regularised evolution and NSGA-II.

Real, Aggarwal, Huang and Le (2019), "Regularized Evolution for Image Classifier Architecture Search",
arXiv:1802.01548. Deb, Pratap, Agarwal and Meyarivan (2002), "A Fast and Elitist Multiobjective Genetic Algorithm:
NSGA-II", IEEE Transactions on Evolutionary Computation 6(2).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import torch
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, NSGAIISampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from torch import Generator

from polyarch.errors import ImpossibleSpace, InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Space, mutate
from polyarch.spaces.space import LISTING_LIMIT

FRESH_DRAWS = 100
"""Children spent on finding a network that was not proposed before."""

RANDOM_DRAWS = 2000
"""Uniform draws spent on it."""

Accept = Callable[[Architecture], bool]


def search_space(space: Space) -> dict[str, BaseDistribution]:
    """The space for Optuna: one categorical parameter per choice, options by name."""
    return {choice.name: CategoricalDistribution(choice.options) for choice in space.choices}


def architecture_of(space: Space, parameters: Mapping[str, Any]) -> Architecture:
    """The architecture behind Optuna's parameters, within the constraints of the space or not."""
    return Architecture(space, tuple(choice.index(parameters[choice.name]) for choice in space.choices))


class NothingLeft(Exception):
    """Every accepted network has been proposed, as far as can be found."""


@dataclass(frozen=True)
class Proposed:
    """The architecture of an earlier trial, with its values if the trial is complete."""

    architecture: Architecture
    values: tuple[float, ...] | None


class Past(Sequence[Proposed]):
    """Earlier proposals in order, and the canonical keys of their networks.

    Samplers are made anew for every proposal; what they read of a study is kept here, so that a proposal costs the same
    however many came before.
    """

    def __init__(self, proposed: Iterable[Proposed] = ()) -> None:
        self._proposed = dict(enumerate(proposed))
        self.networks = {one.architecture.canonical() for one in self._proposed.values()}
        self._unfinished: list[int] = []
        self._read = 0
        self.unvisited: Iterator[Architecture] | None = None
        """What an enumeration of the space has left."""

    def __len__(self) -> int:
        return len(self._proposed)

    def __getitem__(self, index: Any) -> Any:
        return list(self._proposed.values())[index]

    def __reversed__(self) -> Iterator[Proposed]:
        return reversed(self._proposed.values())

    def update(self, space: Space, trials: Sequence[FrozenTrial]) -> None:
        """Reads trials that are new or were not finished before; one without all parameters is no proposal yet."""
        numbers = [*self._unfinished, *range(self._read, len(trials))]
        self._read = len(trials)
        self._unfinished = [number for number in numbers if not trials[number].state.is_finished()]
        for number in numbers:
            trial = trials[number]
            if len(trial.params) == len(space.choices):
                architecture = architecture_of(space, trial.params)  # maybe one that was rejected for the constraints
                told = tuple(trial.values) if trial.state == TrialState.COMPLETE and trial.values else None
                self._proposed[number] = Proposed(architecture, told)
                self.networks.add(architecture.canonical())


_pasts: WeakKeyDictionary[Study, Past] = WeakKeyDictionary()


class ArchitectureSampler(BaseSampler):
    """Proposes accepted architectures, each of another network than those before: of another canonical form.

    A draw depends only on the study and on (seed, number of proposals).
    """

    def __init__(self, space: Space, *, seed: int, accept: Accept | None = None) -> None:
        self.space = space
        self.seed = seed
        self.accepts: Accept = accept or (lambda architecture: True)

    @abstractmethod
    def propose(self, past: Past, *, maximise: bool, generator: Generator) -> Architecture:
        """The next architecture, given all earlier ones in order."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All choices are sampled together."""
        return search_space(self.space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Proposes an architecture as Optuna parameters."""
        past = self.past(study)
        generator = generator_at(self.seed, "propose", len(past))
        maximise = study.directions[0] == StudyDirection.MAXIMIZE
        return self.propose(past, maximise=maximise, generator=generator).to_dict()

    def past(self, study: Study) -> Past:
        """The architectures of the other trials; the one that is asked for has no parameters yet."""
        past = _pasts.setdefault(study, Past())
        past.update(self.space, study.get_trials(deepcopy=False))
        return past

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Refuses parameters outside the space."""
        raise InvalidInput(f"Expected only the choices of space {self.space.name!r}. Got {param_name!r}.")

    def _draw(self, seen: set[str], generator: Generator) -> Architecture:
        """A uniform draw among accepted architectures of new networks; ``seen`` has the canonical keys of others."""

        def is_new(architecture: Architecture) -> bool:
            return architecture.canonical() not in seen and self.accepts(architecture)

        for _ in range(RANDOM_DRAWS):
            architecture = self.space.sample(generator)
            if is_new(architecture):
                return architecture
        left = list(filter(is_new, self.space.members)) if self.space.size <= LISTING_LIMIT else []
        if not left:
            raise NothingLeft
        return left[int(torch.randint(len(left), (), generator=generator))]


class RandomSampler(ArchitectureSampler):
    """Uniform draws of networks, each once."""

    def propose(self, past: Past, *, maximise: bool, generator: Generator) -> Architecture:
        """Draws uniformly."""
        return self._draw(past.networks, generator)


class ExhaustiveSampler(ArchitectureSampler):
    """Every accepted network once, in the order of the space."""

    def propose(self, past: Past, *, maximise: bool, generator: Generator) -> Architecture:
        """Proposes the first architecture of a network that was not proposed before."""
        past.unvisited = past.unvisited or self.space.enumerate()
        for architecture in past.unvisited:
            if architecture.canonical() not in past.networks and self.accepts(architecture):
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

    def propose(self, past: Past, *, maximise: bool, generator: Generator) -> Architecture:
        """Draws at random until the population is complete, then mutates a parent."""
        seen = past.networks
        youngest = (earlier for earlier in reversed(past) if earlier.values is not None)
        alive = list(islice(youngest, self.population))[::-1]
        if len(past) < self.population or not alive:
            return self._draw(seen, generator)
        rows = torch.randperm(len(alive), generator=generator)[: self.tournament].tolist()
        sign = 1 if maximise else -1
        parent = max((alive[row] for row in rows), key=lambda one: sign * (one.values or (0.0,))[0])
        for _ in range(FRESH_DRAWS):
            try:
                child = mutate(parent.architecture, generator, accept=self.accepts)
            except ImpossibleSpace:
                break
            if child.canonical() not in seen:
                return child
        return self._draw(seen, generator)


class DistinctNSGAII(NSGAIISampler):
    """Optuna's NSGA-II whose children are accepted and new networks; where none turns up, a random one takes its place.

    The parents of a generation are sorted by trial number: Optuna returns them by rank when it selects them and by
    number ever after, so a search killed in between would resume with other draws.
    """

    def __init__(self, space: Space, *, seed: int, accept: Accept | None = None, population: int = 20) -> None:
        super().__init__(population_size=population, seed=seed)
        self._random = RandomSampler(space, seed=seed, accept=accept)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All choices are sampled together."""
        return self._random.infer_relative_search_space(study, trial)

    def select_parent(self, study: Study, generation: int) -> list[FrozenTrial]:
        """The survivors of the previous generation, sorted by number."""
        return sorted(super().select_parent(study, generation), key=lambda trial: trial.number)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Proposes a child as Optuna parameters; the first generation is random."""
        space, past = self._random.space, self._random.past(study)
        seen, generator = past.networks, generator_at(self._random.seed, "mutate", len(past))
        parents = self.get_parent_population(study, self.get_trial_generation(study, trial))
        mixed = {name: distribution for name, distribution in search_space.items() if not distribution.single()}
        for _ in range(FRESH_DRAWS if parents else 0):
            inherited = self._child_generation_strategy(study, mixed, parents)  # without what mutates
            child = space.sample(generator).to_dict() | inherited
            architecture = architecture_of(space, child)
            is_new = architecture in space and architecture.canonical() not in seen
            if is_new and self._random.accepts(architecture):
                return child
        return self._random.sample_relative(study, trial, search_space)
