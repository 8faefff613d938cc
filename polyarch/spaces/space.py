"""A space of architectures: a product of choices with constraints and a canonical form, and mutation in it."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Generator

from polyarch.errors import ImpossibleSpace, InvalidInput, UnknownName
from polyarch.spaces.architecture import Architecture, Choice

ENUMERATION_LIMIT = 2_000_000
"""Larger spaces are sampled, never enumerated."""

LISTING_LIMIT = 50_000
"""Spaces of up to this size are listed where that is only a convenience."""

REJECTION_LIMIT = 10_000
"""Failed draws after which a constrained space counts as empty."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition that architectures must meet, and the text that describes it.

    ``holds`` should be a module-level function or a picklable object because spaces are sent to worker processes.
    """

    description: str
    holds: Callable[[Architecture], bool]


@dataclass(frozen=True)
class Space:
    """A product of named choices.

    Args:
        name: identifies the space in files.
        choices: the decisions, in order.
        constraints: conditions that every member meets.
        canonical: maps an architecture to a key that is the same for all architectures of the same network
            (isomorphic cells); by default every architecture has its own.
        weighs_none: whether the relaxation for a differentiable search weighs ``none`` beside the operations of every
            edge, although no architecture takes it.

    Two spaces are equal if their names and choices are.
    """

    name: str
    choices: tuple[Choice, ...]
    constraints: tuple[Constraint, ...] = field(default=(), compare=False)
    canonical: Callable[[Architecture], str] | None = field(default=None, compare=False, repr=False)
    weighs_none: bool = field(default=False, compare=False)
    _positions: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = [choice.name for choice in self.choices]
        if not names:
            raise InvalidInput(f"Expected space {self.name!r} to have at least one choice. Got none.")
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise InvalidInput(f"Expected the choices of {self.name!r} to have distinct names. Got {twice} twice.")
        object.__setattr__(self, "_positions", {name: i for i, name in enumerate(names)})

    def __hash__(self) -> int:
        return hash((self.name, self.choices))

    def __contains__(self, architecture: object) -> bool:
        return (
            isinstance(architecture, Architecture)
            and architecture.space == self
            and all(constraint.holds(architecture) for constraint in self.constraints)
        )

    @property
    def choice_names(self) -> tuple[str, ...]:
        """The names of the choices, in order."""
        return tuple(self._positions)

    @property
    def size(self) -> int:
        """The number of combinations, ignoring constraints."""
        return math.prod(len(choice) for choice in self.choices)

    def position(self, choice: str) -> int:
        """The position of a choice in the order of the space."""
        try:
            return self._positions[choice]
        except KeyError:
            raise UnknownName(f"choice of space {self.name!r}", choice, self._positions) from None

    def __getitem__(self, choice: str) -> Choice:
        return self.choices[self.position(choice)]

    def architecture(self, options: Mapping[str, str] | Sequence[str]) -> Architecture:
        """Builds an architecture from option names, given by choice or in order; it must satisfy the constraints."""
        if isinstance(options, Mapping):
            for name in options:
                self.position(name)
            missing = [name for name in self._positions if name not in options]
            if missing:
                raise InvalidInput(f"Expected an option for every choice of {self.name!r}. Missing: {missing}.")
            options = [options[name] for name in self._positions]
        if isinstance(options, str) or len(options) != len(self.choices):
            raise InvalidInput(f"Expected {len(self.choices)} option names for {self.name!r}. Got {options!r}.")
        indices = tuple(choice.index(name) for choice, name in zip(self.choices, options, strict=True))
        return self.validate(Architecture(self, indices))

    def validate(self, architecture: Architecture) -> Architecture:
        """Returns the architecture if it is a member, otherwise raises an error that names the failed condition."""
        if architecture.space != self:
            raise InvalidInput(f"Expected an architecture of {self.name!r}. Got one of {architecture.space.name!r}.")
        for constraint in self.constraints:
            if not constraint.holds(architecture):
                raise InvalidInput(f"Expected {constraint.description}. Got {architecture.key}.")
        return architecture

    def enumerate(self) -> Iterator[Architecture]:
        """Yields every member once, in lexicographic order of the indices."""
        if self.size > ENUMERATION_LIMIT:
            raise InvalidInput(
                f"Expected a space of at most {ENUMERATION_LIMIT:,} combinations to enumerate. "
                f"Got {self.name!r} with {self.size:,}."
            )
        for indices in itertools.product(*(range(len(choice)) for choice in self.choices)):
            architecture = Architecture(self, indices)
            if architecture in self:
                yield architecture

    @cached_property
    def members(self) -> tuple[Architecture, ...]:
        """All members, enumerated once: distributions over a small space share this tuple."""
        return tuple(self.enumerate())

    def count(self) -> int:
        """The number of members; enumerates a space with constraints."""
        return sum(1 for _ in self.enumerate()) if self.constraints else self.size

    @cached_property
    def network_count(self) -> int:
        """The number of different networks among the members, by canonical form; enumerates the space once."""
        return len({self.canonical_key(member) for member in self.members}) if self.canonical else self.count()

    def sample(self, generator: Generator) -> Architecture:
        """Draws a member uniformly, by rejection if there are constraints."""
        for _ in range(REJECTION_LIMIT):
            indices = tuple(int(torch.randint(len(choice), (), generator=generator)) for choice in self.choices)
            architecture = Architecture(self, indices)
            if not self.constraints or architecture in self:
                return architecture
        raise ImpossibleSpace(
            f"Expected space {self.name!r} to have a member with "
            f"{'; '.join(c.description for c in self.constraints)}. Found none in {REJECTION_LIMIT:,} draws."
        )

    def constrained(self, *constraints: Constraint) -> "Space":
        """The same space with further constraints."""
        return replace(self, constraints=(*self.constraints, *constraints))

    def canonical_key(self, architecture: Architecture) -> str:
        """The key that a member shares with all architectures of the same network."""
        return self.canonical(architecture) if self.canonical else architecture.key


def mutate(
    architecture: Architecture, generator: Generator, *, accept: Callable[[Architecture], bool] | None = None
) -> Architecture:
    """Draws a member that differs in one choice: a choice with more than one option, then another option, uniformly.

    ``accept`` restricts the result further, e.g. to architectures within limits or not seen before.
    """
    space = architecture.space
    movable = [position for position, choice in enumerate(space.choices) if len(choice) > 1]
    if not movable:
        raise ImpossibleSpace(f"Expected space {space.name!r} to have a choice with two options to mutate. Got none.")
    for _ in range(REJECTION_LIMIT):
        position = movable[int(torch.randint(len(movable), (), generator=generator))]
        others = len(space.choices[position]) - 1
        step = 1 + int(torch.randint(others, (), generator=generator))
        index = (architecture.indices[position] + step) % (others + 1)
        indices = architecture.indices
        moved = Architecture(space, (*indices[:position], index, *indices[position + 1 :]))
        if moved in space and (accept is None or accept(moved)):
            return moved
    raise ImpossibleSpace(f"Expected an acceptable mutation of {architecture.key}. Found none.")


def space_name(base: str, operations: tuple[str, ...], known: tuple[str, ...]) -> str:
    """``base``, or ``base[a,b]`` for a space with only some of the known operations; refuses unknown ones."""
    for operation in operations:
        if operation not in known:
            raise InvalidInput(f"Expected operations out of {known}. Got {operation!r}.")
    return base if operations == known else f"{base}[{','.join(operations)}]"
