"""Labelled examples: the interface that all data sets share, examples in memory, and stratified splits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from polyarch.data.named_inputs import Inputs, InputShape, NamedInputs, shape_of, shape_text, tensors_of
from polyarch.data.targets import check_kind
from polyarch.errors import DataError, InvalidInput
from polyarch.randomness import generator_at


class Examples(Protocol):
    """Examples with their targets, which are in memory; inputs may be read on demand."""

    def __len__(self) -> int:
        """The number of examples N."""

    @property
    def targets(self) -> Tensor:
        """Class indices (N,) of int64, numbers (N, T) of floats, or labels (N, L) of booleans."""

    @property
    def classes(self) -> int:
        """The number of classes; 0 where targets are numbers or several labels."""

    @property
    def input_shape(self) -> InputShape:
        """The shape of one example."""

    def subset(self, rows: Tensor | Sequence[int], /) -> Self:
        """The examples at these rows, in this order."""

    def stream(self, orders: Sequence[Tensor], /) -> Iterator[Any]:
        """Yields the raw inputs (B, ...) for each tensor of rows (B,)."""


AnyExamples = TypeVar("AnyExamples", bound=Examples)


@dataclass(frozen=True)
class TensorData:
    """Examples and labels in memory, checked once."""

    inputs: Tensor  # (N, ...) float, uint8 for images with values 0..255, or int64 for tokens
    targets: Tensor  # (N,) class indices, (N, T) numbers, or (N, L) labels that are present or not
    classes: int = 0  # the number of classes; 0 for other targets

    def __post_init__(self) -> None:
        _check_examples(self.inputs, self.targets, self.classes)
        self._check_values()

    def _check_values(self) -> None:
        _check_finite(self.inputs)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.inputs.shape[1:])

    def subset(self, rows: Tensor | Sequence[int], /) -> Self:
        """The examples at these rows, in this order."""
        rows = torch.as_tensor(rows)
        return replace(self, inputs=self.inputs[rows], targets=self.targets[rows])

    def stream(self, orders: Sequence[Tensor], /) -> Iterator[Tensor]:
        """Yields the raw inputs (B, ...) for each tensor of rows (B,)."""
        return (self.inputs[rows] for rows in orders)


@dataclass(frozen=True)
class TableData(TensorData):
    """Table rows (N, columns) float32: categories are stored as indices, unknown ones as -1, missing values as NaN."""

    def _check_values(self) -> None:
        if self.inputs.dim() != 2 or self.inputs.dtype != torch.float32:
            raise DataError(f"Expected (N, columns) of float32. Got {self.inputs.dtype}, {tuple(self.inputs.shape)}.")
        infinite = self.inputs.isinf()
        if infinite.any():
            row, column = infinite.nonzero()[0].tolist()
            raise DataError(f"Expected finite or missing values. Found infinity in example {row}, column {column}.")


@dataclass(frozen=True)
class NamedData:
    """Examples of several named inputs and their labels in memory, checked once."""

    inputs: NamedInputs  # (N, ...) each, of the types of `TensorData`, or bool for masks
    targets: Tensor  # as those of `TensorData`
    classes: int = 0

    def __post_init__(self) -> None:
        _check_examples(self.inputs, self.targets, self.classes)
        for tensor in tensors_of(self.inputs):
            _check_finite(tensor)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def input_shape(self) -> InputShape:
        """The shape of every input of one example."""
        return shape_of(self.inputs)

    def subset(self, rows: Tensor | Sequence[int], /) -> Self:
        """The examples at these rows, in this order."""
        rows = torch.as_tensor(rows)
        return replace(self, inputs=self.inputs[rows], targets=self.targets[rows])

    def stream(self, orders: Sequence[Tensor], /) -> Iterator[NamedInputs]:
        """Yields the raw inputs (B, ...) for each tensor of rows (B,)."""
        return (self.inputs[rows] for rows in orders)


def examples_of(inputs: Inputs, targets: Tensor, classes: int = 0) -> TensorData | NamedData:
    """Labelled examples of one input or of several."""
    if isinstance(inputs, NamedInputs):
        return NamedData(inputs, targets, classes)
    return TensorData(inputs, targets, classes)


def _check_examples(inputs: Inputs, targets: Tensor, classes: int) -> None:
    if len(inputs) != len(targets):
        raise DataError(f"Expected one label per example. Got {len(inputs)} and {len(targets)}.")
    if len(inputs) == 0:
        raise DataError("Expected at least one example. Got an empty data set.")
    for tensor in tensors_of(inputs):
        if tensor.dim() < 2:
            raise DataError(f"Expected examples of one dimension or more. Got shape {tuple(tensor.shape)}.")
    if check_kind(targets) == "classification":
        low, high = int(targets.min()), int(targets.max())
        if low < 0 or high >= classes:
            raise DataError(f"Expected labels in 0..{classes - 1}. Found {low}..{high}.")


def _check_finite(inputs: Tensor) -> None:
    if inputs.is_floating_point():
        finite = inputs.flatten(1).isfinite().all(1)
        if not finite.all():
            row = int((~finite).nonzero()[0])
            raise DataError(f"Expected finite inputs. Found NaN or infinity in example {row}.")


def resident(data: Examples) -> TensorData:
    """The same examples of one input, in memory."""
    if isinstance(data, TensorData):
        return data
    pieces = list(data.stream(torch.arange(len(data)).split(256)))
    tensors = [piece for piece in pieces if isinstance(piece, Tensor)]
    if len(tensors) < len(pieces):
        raise DataError(f"Expected examples of one input. Got {shape_text(pieces[0])}.")
    return TensorData(torch.cat(tensors), data.targets, data.classes)


def stratified_indices(targets: Tensor, fraction: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """Splits targets into the sorted rows of the rest and of a part with ``fraction`` of every class.

    Every class that occurs gets at least one example on each side. Targets that are no classes are split at random.
    """
    if not 0 < fraction < 1:
        raise InvalidInput(f"Expected a fraction between 0 and 1. Got {fraction}.")
    generator = generator_at(seed, "split")
    rest, part = [], []
    has_classes = targets.dtype == torch.int64 and targets.dim() == 1
    groups = targets if has_classes else torch.zeros(len(targets), dtype=torch.int64)
    for label in groups.unique().tolist():
        rows = (groups == label).nonzero().flatten()
        if len(rows) < 2:
            whom, who = (" of every class", f"Class {label} has") if has_classes else ("", "Got")
            raise DataError(f"Expected two or more examples{whom} to split. {who} {len(rows)}.")
        rows = rows[torch.randperm(len(rows), generator=generator)]
        size = min(max(round(fraction * len(rows)), 1), len(rows) - 1)
        part.append(rows[:size])
        rest.append(rows[size:])
    return torch.cat(rest).sort().values, torch.cat(part).sort().values


def stratified_split(data: AnyExamples, fraction: float, *, seed: int) -> tuple[AnyExamples, AnyExamples]:
    """Splits examples into the rest and a part with ``fraction`` of every class."""
    rest, part = stratified_indices(data.targets, fraction, seed=seed)
    return data.subset(rest), data.subset(part)
