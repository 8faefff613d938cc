"""A data set: training and test examples, class names and, for tables, columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from polyarch.data.columns import Column
from polyarch.data.examples import Examples, NamedData, TensorData, resident
from polyarch.data.image_files import ImageFiles
from polyarch.data.named_inputs import InputType, type_of
from polyarch.data.preprocessing import Identity, NamedPreprocessing, Normalisation, Preprocessing
from polyarch.data.resizing import resize
from polyarch.data.table_encoding import TableEncoding, TableIndices
from polyarch.errors import DataError, InvalidInput


@dataclass(frozen=True)
class Dataset:
    """Training and test examples, and the names of their classes."""

    name: str
    train: Examples
    test: Examples
    class_names: tuple[str, ...]
    columns: tuple[Column, ...] = ()  # of a table; empty for other data
    notes: tuple[str, ...] = ()  # sentences on what loading left out or changed
    masks: Mapping[str, str] = field(default_factory=dict)  # padded input -> the input that marks its real tokens

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def input_shape(self) -> Any:
        """The shape of one raw example, or `InputShape` of several inputs.

        `Preprocessing.output_shape` gives the shape that a network reads.
        """
        return self.train.input_shape

    @property
    def input_dtype(self) -> InputType:
        """The type of raw examples."""
        return type_of(self.train.inputs) if isinstance(self.train, TensorData | NamedData) else torch.uint8

    @property
    def is_image(self) -> bool:
        """Whether examples are images (C, H, W)."""
        return isinstance(self.input_shape, tuple) and len(self.input_shape) == 3

    @property
    def is_table(self) -> bool:
        """Whether examples are rows of a table with named columns."""
        return bool(self.columns)

    @property
    def is_bytes(self) -> bool:
        """Whether raw examples are bytes 0..255 rather than floats."""
        return self.input_dtype == torch.uint8

    def preprocessing(self, train: Examples, *, indices: bool = False) -> Preprocessing:
        """The preprocessing fitted on this part of the training data; vocabularies are those of all examples.

        Args:
            indices: whether the categories of a table become indices for embeddings, see `TableIndices`.
        """
        if self.is_table:
            return (TableIndices if indices else TableEncoding).of(train, self.columns)
        if isinstance(train, NamedData):
            return NamedPreprocessing({name: self._fitted(tensor, name) for name, tensor in train.inputs.items()})
        return self._fitted(train.inputs) if isinstance(train, TensorData) else Normalisation.of(train)

    def _fitted(self, inputs: Tensor, name: str | None = None) -> Preprocessing:
        """The preprocessing of one input, by its type."""
        if inputs.dtype == torch.int64:
            sides = [side.inputs for side in (self.train, self.test) if isinstance(side, TensorData | NamedData)]
            found = [side if isinstance(side, Tensor) else side[name or ""] for side in sides]
            return Identity(1 + max(int(tokens.max()) for tokens in found))
        if inputs.dtype == torch.bool:
            return Identity()
        return Normalisation.of(inputs)

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
