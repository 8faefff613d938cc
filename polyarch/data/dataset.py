"""A data set: training and test examples, the names of what is predicted and, for tables, columns."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from polyarch.data.columns import Column
from polyarch.data.examples import Examples, TensorData, resident
from polyarch.data.image_files import ImageFiles
from polyarch.data.preprocessing import Normalisation, Preprocessing, TableEncoding
from polyarch.data.resizing import resize
from polyarch.data.targets import TargetKind, check_kind
from polyarch.errors import DataError, InvalidInput


@dataclass(frozen=True)
class Dataset:
    """Training and test examples, and the names of their classes, or of the numbers or labels that are predicted."""

    name: str
    train: Examples
    test: Examples
    class_names: tuple[str, ...]  # empty where targets are no classes
    columns: tuple[Column, ...] = ()  # of a table; empty for other data
    notes: tuple[str, ...] = ()  # sentences on what loading left out or changed
    target_names: tuple[str, ...] = ()  # of numbers, or of labels that are present or not; empty for classes
    task: Any = None  # a `polyarch.tasks.Task` of the user's own, in place of the one that fits the targets

    @property
    def kind(self) -> TargetKind:
        """What the targets are."""
        return check_kind(self.train.targets)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one raw example; `Preprocessing.output_shape` gives the shape that a network reads."""
        return self.train.input_shape

    @property
    def is_image(self) -> bool:
        """Whether examples are images (C, H, W)."""
        return len(self.input_shape) == 3

    @property
    def is_table(self) -> bool:
        """Whether examples are rows of a table with named columns."""
        return bool(self.columns)

    @property
    def is_bytes(self) -> bool:
        """Whether raw examples are bytes 0..255 rather than floats."""
        return not isinstance(self.train, TensorData) or self.train.inputs.dtype == torch.uint8

    def preprocessing(self, train: Examples) -> Preprocessing:
        """The preprocessing fitted on this part of the training data."""
        return TableEncoding.of(train, self.columns) if self.is_table else Normalisation.of(train)

    def resized(self, size: int) -> "Dataset":
        """The same images at size x size; each pixel is the mean of the area it covers."""
        if not self.is_image:
            raise DataError(f"Expected images to resize. Got examples of shape {self.input_shape}.")
        if size < 1:
            raise InvalidInput(f"Expected images of 1 pixel or more. Got size {size}.")
        return replace(self, train=_resized(self.train, size), test=_resized(self.test, size))


def _resized(data: Examples, size: int) -> Examples:
    if isinstance(data, ImageFiles):
        return data.resized(size)
    whole = resident(data)
    return TensorData(resize(whole.inputs, size), whole.targets, whole.classes)
