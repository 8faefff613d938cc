"""Validation and test examples from a source of their own, converted to the classes and the format of the data."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from polyarch.data.dataset import Dataset
from polyarch.data.examples import Examples, TensorData, resident
from polyarch.data.image_files import ImageFiles
from polyarch.data.labels import class_index
from polyarch.data.resizing import shaped_like
from polyarch.errors import DataError


def examples_like(other: Dataset, data: Dataset, origin: str) -> Examples:
    """The training examples of another data set as examples of this one, which has their targets; not for tables.

    Args:
        origin: how error messages refer to them.
    """
    if other.kind != data.kind or len(other.target_names) != len(data.target_names):
        raise DataError(
            f"Expected targets for {data.kind} in {origin}, as in the training data. Got those of {other.kind}."
        )
    targets = other.train.targets
    if data.kind == "classification":
        targets = torch.tensor(_class_indices(other.class_names, data.class_names, origin))[targets]
    train: Any = other.train  # a frozen dataclass, whatever kind of examples it is
    if (other.input_shape, other.is_bytes) == (data.input_shape, data.is_bytes):
        same: Examples = replace(train, targets=targets, classes=data.classes)
        return same
    if not (data.is_image and other.is_image and data.is_bytes and other.is_bytes):
        kinds = ("bytes" if one.is_bytes else "floats" for one in (data, other))
        raise DataError(
            f"Expected examples of shape {data.input_shape} in {origin}, of {next(kinds)} as in the training data. "
            f"Got {other.input_shape} of {next(kinds)}."
        )
    if isinstance(train, ImageFiles):
        return replace(train, targets=targets, classes=data.classes, input_shape=data.input_shape)
    return TensorData(shaped_like(resident(train).inputs, data.input_shape, as_bytes=True), targets, data.classes)


def _class_indices(names: Sequence[str], known: Sequence[str], origin: str) -> list[int]:
    """The place of every class among those of the training data."""
    found = [class_index(known, name) for name in names]
    if max(found) < 0 and all(name.isdecimal() and int(name) < len(known) for name in names):
        return [int(name) for name in names]  # of a torch data set that numbers the classes and does not name them
    for name, index in zip(names, found, strict=True):
        if index < 0:
            raise DataError(f"Expected only classes of the training data in {origin}. Found {name!r}.")
    return found
