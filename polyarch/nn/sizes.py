"""Sizes to choose from, in the place where a torch layer takes a number."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.nn.block_selection import Selections
from polyarch.spaces import Choice


@dataclass(frozen=True, eq=False)
class SizeChoice:
    """A choice between sizes. Elastic layers made with the same object share it; see `ChoiceSource`."""

    choice: Choice
    tied: bool

    def __deepcopy__(self, memo: object) -> "SizeChoice":
        return self  # so that copies of a layer share its choice


class Sizes:
    """Several sizes for an elastic layer, of which an architecture has one: ``Sizes("width", 16, 24, 32)``.

    All layers that are made with the same sizes have the same size: the choice is made once. Sizes can be multiplied by
    numbers and by each other, and divided by numbers. The result depends on the same choices:

    >>> width, expansion = Sizes("width", 16, 24), Sizes("expansion", 2, 4)
    >>> width * expansion // 4
    Sizes('width', 'expansion': 8, 16, 12, 24)

    Args:
        name: the name of the choice, whose options are the sizes as text.
        sizes: in ascending order; the default is the largest.
        tied: whether other `Sizes` or blocks may have the same name and options, and the choice is made once for all of
            them; every one of them must say so.
    """

    def __init__(self, name: str, *sizes: int, tied: bool = False) -> None:
        if not isinstance(name, str):
            raise InvalidInput(f"Expected the name of a choice of sizes first. Got {type(name).__name__}.")
        if not all(isinstance(size, int) and size > 0 for size in sizes) or list(sizes) != sorted(set(sizes)):
            raise InvalidInput(f"Expected ascending sizes of 1 or more for {name!r}. Got {list(sizes)}.")
        self._set((SizeChoice(Choice(name, tuple(map(str, sizes))), tied),), sizes)

    def _set(self, sources: tuple[SizeChoice, ...], table: Sequence[int]) -> None:
        self.sources = sources
        self.table = tuple(table)
        """The size for every combination of options, those of the last choice changing fastest."""
        self._radices = tuple((source.choice.name, len(source.choice)) for source in sources)

    @classmethod
    def of(cls, size: "int | Sizes") -> "Sizes":
        """Sizes as they are, or the only size there is."""
        return size if isinstance(size, Sizes) else _computed((), [size])

    @property
    def largest(self) -> int:
        """The largest size, which layers have weights for."""
        return max(self.table)

    def among(self, selections: Selections) -> tuple[tuple[int, ...], Tensor | None]:
        """The sizes of all combinations of options that run, and their weights (R,) or (B, R) in a mixed pass.

        The weight of a combination is the product of the weights of its options.
        """
        weights: Tensor | None = None
        running: list[Sequence[int]] = []
        for source in self.sources:
            selection = selections.get(source.choice.name, len(source.choice) - 1)
            if isinstance(selection, int):
                running.append([selection])
                continue
            running.append(selection.indices)
            gates = selection.weights
            if len(selection.indices) < len(source.choice):
                gates = gates[..., list(selection.indices)]
            weights = gates if weights is None else (weights[..., :, None] * gates[..., None, :]).flatten(-2)
        return tuple(map(self._at, itertools.product(*running))), weights

    def extent(self, selections: Selections) -> int:
        """The largest size that runs."""
        size = self.chosen(selections)
        return max(self.among(selections)[0]) if size is None else size

    def chosen(self, selections: Selections) -> int | None:
        """The size of a hard path, None in a mixed pass."""
        row = 0
        for name, options in self._radices:  # every layer of every path comes by here
            selection = selections.get(name, options - 1)
            if type(selection) is not int:
                return None
            row = row * options + selection
        return self.table[row]

    def masked(self, y: Tensor, selections: Selections, dim: int) -> Tensor:
        """y times sum_r weight_r [c < size_r] for every channel c in dimension ``dim``; y itself for a hard path."""
        if self.chosen(selections) is not None:
            return y
        sizes, weights = self.among(selections)
        assert weights is not None
        if weights.dim() == 2 and len(weights) != len(y):
            names = ", ".join(repr(source.choice.name) for source in self.sources)
            raise InvalidInput(
                f"Expected one row of gates per example of {names}. "
                f"Got {len(weights)} rows for an output of shape {tuple(y.shape)}."
            )
        channels = torch.arange(y.shape[dim], device=y.device)
        masks = channels < torch.tensor(sizes, device=y.device)[:, None]  # (R, C)
        shape = [1] * y.dim()
        shape[dim] = len(channels)
        if weights.dim() == 2:
            shape[0] = len(y)
        return y * (weights.to(y) @ masks.to(y)).view(shape)

    def __mul__(self, other: "int | Sizes") -> "Sizes":
        return _combined(lambda first, second: first * second, self, Sizes.of(other))

    def __rmul__(self, other: int) -> "Sizes":
        return self * other

    def __floordiv__(self, other: int) -> "Sizes":
        return _combined(lambda first, second: first // second, self, Sizes.of(other))

    def __repr__(self) -> str:
        names = ", ".join(repr(source.choice.name) for source in self.sources)
        return f"Sizes({names}: {', '.join(map(str, self.table))})"

    def __deepcopy__(self, memo: object) -> "Sizes":
        return self

    def _at(self, indices: Sequence[int]) -> int:
        row = 0
        for source, index in zip(self.sources, indices, strict=True):
            row = row * len(source.choice) + index
        return self.table[row]


def united(*parts: Sizes) -> tuple[SizeChoice, ...]:
    """The choices that some sizes depend on, each once, in order."""
    return tuple({id(source): source for part in parts for source in part.sources}.values())


def combinations(sources: Sequence[SizeChoice]) -> list[dict[str, int]]:
    """All combinations of options: choice name -> option index."""
    names = [source.choice.name for source in sources]
    options = [range(len(source.choice)) for source in sources]
    return [dict(zip(names, indices, strict=True)) for indices in itertools.product(*options)]


def _combined(function: Callable[[int, int], int], first: Sizes, second: Sizes) -> Sizes:
    sources = united(first, second)
    table = [function(first.extent(indices), second.extent(indices)) for indices in combinations(sources)]
    return _computed(sources, table)


def _computed(sources: tuple[SizeChoice, ...], table: Sequence[int]) -> Sizes:
    if not all(isinstance(size, int) and size > 0 for size in table):
        raise InvalidInput(f"Expected sizes of 1 or more. Got {list(table)}.")
    assert len(table) == math.prod(len(source.choice) for source in sources)
    sizes = object.__new__(Sizes)
    sizes._set(sources, table)
    return sizes
