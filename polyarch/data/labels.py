"""Converts labels as people write them to class indices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polyarch.errors import DataError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ClassLabels:
    """The sorted labels of a data set's classes: all integers, all fractions or all texts."""

    values: tuple[int | float | str, ...]

    @classmethod
    def of(cls, labels: Array, origin: str, place: str = "example") -> "ClassLabels":
        """The classes that occur in the training labels (N,)."""
        found = np.unique(_uniform(labels, origin, place))
        if len(found) == 0:
            raise DataError(f"Expected two or more classes in {origin}. Found no examples.")
        if found.dtype.kind == "f" and len(found) == len(labels):
            raise DataError(
                f"Expected class labels in {origin}. Found {len(found)} different numbers: a task for regression."
            )
        if len(found) < 2:
            raise DataError(f"Expected two or more classes in {origin}. Found only {str(found[0])!r}.")
        return cls(tuple(found.tolist()))

    @property
    def names(self) -> tuple[str, ...]:
        """The labels as texts."""
        return tuple(map(str, self.values))

    def encode(self, labels: Array, origin: str, place: str = "example") -> Tensor:
        """(N,) labels -> (N,) class indices."""
        index = {value: position for position, value in enumerate(self.values)}
        return _encoded(_uniform(labels, origin, place), lambda value: index.get(value, -1), origin, place)


def encode_by_name(labels: Array, class_names: Sequence[str], origin: str, place: str = "example") -> Tensor:
    """(N,) labels -> (N,) indices of the class names."""
    return _encoded(_uniform(labels, origin, place), partial(class_index, class_names), origin, place)


def class_index(class_names: Sequence[str], label: int | float | str) -> int:
    """The index of the class with this label, -1 if there is none; 1 in one file may be 1.0 in another."""
    if str(label) in class_names:
        return class_names.index(str(label))
    try:
        return class_names.index(str(float(label)))
    except ValueError:
        return -1


def _encoded(labels: Array, index: Callable[[Any], int], origin: str, place: str) -> Tensor:
    """(N,) labels -> (N,) indices; refuses those that the training data do not have."""
    distinct, inverse = np.unique(labels, return_inverse=True)
    known = np.array([index(value) for value in distinct.tolist()], dtype=np.int64)
    encoded = known[inverse.reshape(-1)]
    if (encoded < 0).any():
        first = int(np.flatnonzero(encoded < 0)[0])
        raise DataError(
            f"Expected only labels that occur in the training data in {origin}. "
            f"Found {str(labels[first])!r} in {position_of(place, first)}."
        )
    return torch.from_numpy(encoded)


def check_counts(targets: Tensor, class_names: Sequence[str], origin: str, *, fewest: int = 3) -> None:
    """Refuses a single class, and classes with fewer examples than the parts to split them into."""
    if len(class_names) < 2:
        raise DataError(f"Expected two or more classes in {origin}. Found only {', '.join(map(repr, class_names))}.")
    counts = targets.bincount(minlength=len(class_names)).tolist()
    for name, count in zip(class_names, counts, strict=True):
        if count < fewest:
            raise DataError(
                f"Expected {fewest} or more examples of every class in {origin}. Found {count} of class {name!r}."
            )


def _uniform(labels: Array, origin: str, place: str) -> Array:
    """Labels as int64, as float64 if some are fractions, or as text."""
    match labels.dtype.kind:
        case "i" | "u":
            fits = labels.dtype.kind == "i" or labels.max(initial=0) < 2**63
            return labels.astype(np.int64 if fits else np.str_)
        case "f":
            unusable = ~np.isfinite(labels)
            if unusable.any():
                first = int(np.flatnonzero(unusable)[0])
                where = position_of(place, first)
                raise DataError(f"Expected a label for every example of {origin}. Found {labels[first]} in {where}.")
            whole = bool((labels == np.floor(labels)).all() and (np.abs(labels) < 2**53).all())
            return labels.astype(np.int64 if whole else np.float64)
        case "b" | "U" | "T":
            return labels.astype(np.str_)
        case "O" if all(isinstance(label, str) for label in labels):
            return labels.astype(np.str_)
        case _:
            raise DataError(f"Expected integers or texts as labels in {origin}. Found {labels.dtype}.")


def position_of(place: str, index: int) -> str:
    """``example 0`` of an array, or ``row 1`` of a table, whose rows are counted from 1."""
    return f"{place} {index + (place == 'row')}"
