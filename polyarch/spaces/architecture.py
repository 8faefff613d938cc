"""Choices, architectures and gates: the vocabulary in which all other modules describe a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor

from polyarch.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from polyarch.spaces.space import Space

Gates = Mapping[str, Tensor]
"""Choice name -> weights of its options: (O,) for the whole batch, or (B, O) per example."""

ChoiceKind = Literal["operation", "wiring", "node_operation"]
"""What a choice decides: the operation on an edge or in a layer; the inputs of a node or the depth of a network; or the
operation on a node."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One named decision with at least one option.

    The kind is for code that treats decisions differently, such as samplers. Two choices are equal if their names and
    options are, whatever their kind.

    >>> Choice("edge", ("none", "skip")).index("skip")
    1
    """

    name: str
    options: tuple[str, ...]
    kind: ChoiceKind = field(default="operation", compare=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidInput("Expected a choice to have a name. Got an empty string.")
        if not self.options or len(set(self.options)) != len(self.options):
            raise InvalidInput(f"Expected one or more distinct options for {self.name!r}. Got {list(self.options)}.")
        if any("|" in option for option in self.options):  # `Architecture.key` separates options with it
            raise InvalidInput(f"Expected options without '|' for choice {self.name!r}. Got {list(self.options)}.")
        if self.kind not in get_args(ChoiceKind):
            raise InvalidInput(f"Expected choice {self.name!r} to be one of {get_args(ChoiceKind)}. Got {self.kind!r}.")

    def __len__(self) -> int:
        return len(self.options)

    def index(self, option: str) -> int:
        """The position of an option by its name."""
        try:
            return self.options.index(option)
        except ValueError:
            raise UnknownName(f"option of choice {self.name!r}", option, self.options) from None


@dataclass(frozen=True, slots=True, eq=False)
class Architecture:
    """One network of a space: an option index for every choice. Immutable and hashable.

    Get one from ``space.architecture(...)`` or by sampling. ``architecture["edge"]`` is the index of the
    option chosen at ``edge``, ``architecture.option("edge")`` its name.
    """

    space: Space
    indices: tuple[int, ...]

    def __post_init__(self) -> None:
        name, choices = self.space.name, self.space.choices
        if len(self.indices) != len(choices):
            raise InvalidInput(f"Expected {len(choices)} option indices for space {name!r}. Got {len(self.indices)}.")
        for choice, index in zip(choices, self.indices, strict=True):
            if not 0 <= index < len(choice.options):
                raise InvalidInput(f"Expected {choice.name!r} to have an index in 0..{len(choice) - 1}. Got {index}.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Architecture):
            return NotImplemented
        return self.indices == other.indices and self.space == other.space

    def __hash__(self) -> int:
        return hash(self.indices)

    def __getitem__(self, choice: str) -> int:
        return self.indices[self.space.position(choice)]

    def __str__(self) -> str:
        return self.key

    def option(self, choice: str) -> str:
        """The name of the option chosen at ``choice``."""
        return self.space.choices[self.space.position(choice)].options[self[choice]]

    @property
    def names(self) -> tuple[str, ...]:
        """The chosen option of every choice, in the order of the space."""
        return tuple(c.options[i] for c, i in zip(self.space.choices, self.indices, strict=True))

    @property
    def key(self) -> str:
        """A short text that identifies this architecture within its space."""
        return "|".join(self.names)

    def replace(self, **options: str) -> Architecture:
        """A copy with other options at the named choices."""
        return self.space.architecture({**self.to_dict(), **options})

    def canonical(self) -> str:
        """A key that architectures share exactly if the space knows them to be the same network."""
        return self.space.canonical_key(self)

    def one_hot(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> dict[str, Tensor]:
        """Gates with all weight on the chosen options: choice -> (O,)."""
        gates = {}
        for choice, index in zip(self.space.choices, self.indices, strict=True):
            gate = torch.zeros(len(choice), dtype=dtype, device=device)
            gate[index] = 1.0
            gates[choice.name] = gate
        return gates

    def to_dict(self) -> dict[str, str]:
        """Choice name -> option name; ``space.architecture`` reads it, even if options were reordered."""
        return dict(zip(self.space.choice_names, self.names, strict=True))


def per_example_gates(architectures: Sequence[Architecture]) -> Gates:
    """One-hot gates that give example b the b-th architecture: choice -> (B, O)."""
    if not architectures:
        raise InvalidInput("Expected an architecture for every example. Got none.")
    space = architectures[0].space
    for architecture in architectures:
        space.validate(architecture)
    columns = torch.tensor([architecture.indices for architecture in architectures]).unbind(1)  # each (B,)
    one_hots = {size: torch.eye(size) for size in {len(choice) for choice in space.choices}}
    return {choice.name: one_hots[len(choice)][column] for choice, column in zip(space.choices, columns, strict=True)}
