"""A data set: training, test and maybe validation examples, names of what is predicted and, for tables, columns."""

from collections.abc import Mapping, Sequence
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
from polyarch.data.splits import RandomSplit, Rows, Split
from polyarch.data.table_encoding import NumberScaling, TableEncoding, TableIndices
from polyarch.data.targets import TargetKind, check_kind
from polyarch.errors import DataError, InvalidInput

OF_SOURCE = "those of the source"


@dataclass(frozen=True)
class Dataset:
    """Training and test examples, and the names of their classes, or of the numbers or labels that are predicted.

    Args:
        class_names: empty where targets are no classes.
        columns: of a table; empty for other data.
        notes: sentences on what loading left out or changed.
        valid: validation examples, if the source or the user has some; otherwise runs hold out training examples.
        split: how training examples are held out.
        valid_origin: where the validation examples come from, in words, if there are some.
        test_origin: where the test examples come from, in words; None if training examples stand for them.
        target: the column of a table that holds classes.
        left_out: the columns of a table that are no inputs.
        target_names: of numbers, or of labels that are present or not; in a table, of their columns.
        task: a `polyarch.tasks.Task` of the user's own, in place of the one that fits the targets.
        masks: padded input -> the input that marks its real tokens.
    """

    name: str
    train: Examples
    test: Examples
    class_names: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()
    valid: Examples | None = None
    split: Split = field(default_factory=RandomSplit)
    valid_origin: str = OF_SOURCE
    test_origin: str | None = OF_SOURCE
    target: str | None = None
    left_out: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    task: Any = None
    masks: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def divided(
        cls,
        name: str,
        examples: Examples,
        class_names: tuple[str, ...],
        share: float | None,
        split: Split | None = None,
        valid: Examples | None = None,
        target_names: tuple[str, ...] = (),
    ) -> "Dataset":
        """Holds out a share of the examples to test on; without a share all are training examples."""
        split = split or RandomSplit()
        rest, part = held_out_rows(split, examples.targets, share, class_names)
        return cls(
            name,
            examples.subset(rest),
            examples.subset(part),
            class_names,
            valid=valid,
            split=split.subset(rest),
            test_origin=None if share is None else split.in_words(share),
            target_names=target_names,
        )

    @property
    def kind(self) -> TargetKind:
        """What the targets are."""
        return check_kind(self.train.targets)

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
        if isinstance(self.train, TensorData | NamedData):
            return type_of(self.train.inputs)
        return getattr(self.train, "dtype", torch.uint8)  # images in files are bytes

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

    def preprocessing(
        self, train: Examples, *, indices: bool = False, numbers: NumberScaling = "standard"
    ) -> Preprocessing:
        """The preprocessing fitted on this part of the training data; vocabularies are those of all examples.

        Args:
            indices: whether the categories of a table become indices for embeddings, see `TableIndices`.
            numbers: how the numbers of a table are scaled; others are standardised.
        """
        if self.is_table:
            return (TableIndices if indices else TableEncoding).of(train, self.columns, numbers=numbers)
        if numbers != "standard":
            raise DataError(f"Expected a table for numbers that are scaled by {numbers}. Got {self.name!r}.")
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
        valid = None if self.valid is None else _resized(self.valid, size)
        return replace(self, train=_resized(self.train, size), test=_resized(self.test, size), valid=valid)


def held_out_rows(split: Split, targets: Tensor, share: float | None, class_names: Sequence[str]) -> Rows:
    """The rows of training and test examples, the same ones every time; without a share all rows are both."""
    if share is None:
        return torch.arange(len(targets)), torch.arange(len(targets))
    return split.rows(targets, share, seed=0, class_names=class_names)


def _resized(data: Examples, size: int) -> Examples:
    if isinstance(data, ImageFiles):
        return data.resized(size)
    whole = resident(data)
    return TensorData(resize(whole.inputs, size), whole.targets, whole.classes)
