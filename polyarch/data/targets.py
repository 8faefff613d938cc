"""What the targets of a data set are: classes, numbers, or labels of which several may be present."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from polyarch.data.labels import Array, ClassLabels, encode_by_name, position_of
from polyarch.errors import DataError

TargetKind = Literal["classification", "regression", "multi-label"]

FEWEST_NUMBERS = 20
"""A column with no more distinct numbers holds classes, unless the user says otherwise."""
MOST_CLASSES_IN_COLUMN = 50
"""A column of a table with more distinct whole numbers holds numbers."""
EXAMPLES_PER_CLASS = 10
"""Whole numbers of an array that occur less often than this on average are no classes."""


class TargetEncoding(Protocol):
    """Converts raw targets to a tensor."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the classes, numbers or labels."""

    def encode(self, values: Array, origin: str, place: str = "example") -> Tensor:
        """(N,) or (N, T) raw targets -> a tensor of the kind."""


@dataclass(frozen=True)
class NumericTargets:
    """Numbers to predict, as float32 (N, T)."""

    names: tuple[str, ...]

    def encode(self, values: Array, origin: str, place: str = "example") -> Tensor:
        """(N,) or (N, T) numbers -> (N, T)."""
        if values.dtype.kind not in "biuf":
            raise DataError(f"Expected numbers as targets of a regression in {origin}. Found {values.dtype}.")
        columns = _columns(values, len(self.names), origin)
        with np.errstate(over="ignore"):
            floats = columns.astype(np.float32)
        unusable = ~np.isfinite(floats).all(1)
        if unusable.any():
            first = int(np.flatnonzero(unusable)[0])
            raise DataError(
                f"Expected a finite number as the target of every example of {origin}. "
                f"Found {columns[first].tolist()} in {position_of(place, first)}."
            )
        return torch.from_numpy(floats)


@dataclass(frozen=True)
class LabelTargets:
    """Labels that are present or not, as booleans (N, L)."""

    names: tuple[str, ...]

    def encode(self, values: Array, origin: str, place: str = "example") -> Tensor:
        """(N, L) of 0 and 1 -> (N, L)."""
        columns = _columns(values, len(self.names), origin)
        wrong = ~_are_truths(columns)
        if wrong.any():
            row = int(np.flatnonzero(wrong.any(1))[0])
            where = position_of(place, row)
            raise DataError(f"Expected 0 or 1 for every label in {origin}. Found {columns[row].tolist()} in {where}.")
        return torch.from_numpy(columns.astype(bool))


def target_encoding(
    values: Array, origin: str, *, kind: TargetKind | None = None, names: Sequence[str] = (), place: str = "example"
) -> TargetEncoding:
    """The encoding of training targets (N,) or (N, T).

    Args:
        kind: what they are; by default `recognised` from the values.
        names: of the columns; ``target`` or ``target 0``, ``target 1``, ... by default.
    """
    width = 1 if values.ndim == 1 else values.shape[1]
    names = tuple(names) or (("target",) if width == 1 else tuple(f"target {index}" for index in range(width)))
    match kind or recognised(values, in_table=place == "row"):
        case "regression":
            return NumericTargets(names)
        case "multi-label":
            return LabelTargets(names)
    if values.ndim == 2:
        raise DataError(f"Expected one class per example in {origin}. Found {values.shape[1]} targets.")
    return ClassLabels.of(values, origin, place)


@dataclass(frozen=True)
class NamedClasses:
    """Classes of data that was read before, by their names."""

    names: tuple[str, ...]

    def encode(self, values: Array, origin: str, place: str = "example") -> Tensor:
        """(N,) labels -> (N,) class indices."""
        return encode_by_name(values, self.names, origin, place)


def known_encoding(kind: TargetKind, class_names: Sequence[str], target_names: Sequence[str]) -> TargetEncoding:
    """The encoding of further targets of data that was read before."""
    match kind:
        case "regression":
            return NumericTargets(tuple(target_names))
        case "multi-label":
            return LabelTargets(tuple(target_names))
    return NamedClasses(tuple(class_names))


def names_of(encoding: TargetEncoding) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of classes, and those of numbers or labels; one of them is empty."""
    return (encoding.names, ()) if isinstance(encoding, ClassLabels) else ((), encoding.names)


def recognised(values: Array, *, in_table: bool) -> TargetKind:
    """What targets look like: (N,) or (N, T).

    Several columns of 0 and 1 are labels, several others numbers. One column is a regression if it has more than 20
    distinct numbers, some of them fractions. Whole numbers are a regression if a table has more than 50 distinct ones;
    in arrays, whose labels are usually classes, if there are more than 20 and each occurs less than 10 times on
    average.
    """
    if values.ndim == 2 and values.shape[1] > 1:
        return "multi-label" if _are_truths(values).all() else "regression"
    flat = values.reshape(-1)
    if flat.dtype.kind not in "iuf":
        return "classification"
    distinct = len(np.unique(flat))
    whole = bool((flat == np.floor(flat)).all())
    if whole:
        rare = distinct > MOST_CLASSES_IN_COLUMN if in_table else distinct * EXAMPLES_PER_CLASS > len(flat)
        return "regression" if rare and distinct > FEWEST_NUMBERS else "classification"
    return "regression" if distinct > FEWEST_NUMBERS else "classification"


def check_kind(targets: Tensor) -> TargetKind:
    """What encoded targets are, by their type: int64 (N,), floats (N, T) or booleans (N, L)."""
    if targets.dtype == torch.int64 and targets.dim() == 1:
        return "classification"
    if targets.is_floating_point() and targets.dim() == 2:
        if not targets.isfinite().all():
            raise DataError("Expected finite targets. Found NaN or infinity.")
        return "regression"
    if targets.dtype == torch.bool and targets.dim() == 2:
        return "multi-label"
    raise DataError(
        f"Expected labels (N,) of int64, numbers (N, T) of floats or labels (N, L) of booleans. "
        f"Got {targets.dtype}, {tuple(targets.shape)}."
    )


def _columns(values: Array, width: int, origin: str) -> Any:
    columns = values.reshape(len(values), -1)
    if columns.shape[1] != width:
        raise DataError(f"Expected {width} targets per example in {origin}. Found {columns.shape[1]}.")
    return columns


def _are_truths(values: Array) -> Any:
    """Whether cells are 0 or 1, for an array of any shape."""
    if values.dtype.kind not in "biuf":
        return np.zeros(values.shape, dtype=bool)
    return (values == 0) | (values == 1)
