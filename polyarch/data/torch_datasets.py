"""Reads map-style torch data sets into memory."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from polyarch.data.arrays import input_tensor
from polyarch.data.dataset import Dataset
from polyarch.data.decoding import GREY_MODES, image_pixels
from polyarch.data.examples import examples_of, stratified_split
from polyarch.data.labels import ClassLabels, check_counts
from polyarch.data.named_inputs import Inputs
from polyarch.data.sequences import TOKENS, is_ragged, with_masks
from polyarch.errors import DataError


def read_torch_dataset(
    source: torch.utils.data.Dataset[Any], *, size: int | None = None, test_share: float = 0.2
) -> Dataset:
    """Reads all pairs of an input (tensor, array or PIL image), or a mapping of several by name, and an integer label.

    Args:
        size: crops and resizes PIL images to this side; by default they must all have the same size.
    """
    name = type(source).__name__
    if not hasattr(source, "__len__") or isinstance(source, torch.utils.data.IterableDataset):
        raise DataError(f"Expected a map-style data set with a length. Got {name}.")
    count = len(source)
    if count == 0:
        raise DataError(f"Expected at least one example in {name}. Got an empty data set.")
    columns: dict[str, _Column] = {}
    labels = torch.empty(count, dtype=torch.int64)
    for index in range(count):
        origin = f"item {index} of {name}"
        item, label = _pair(source[index], origin)
        parts = item if isinstance(item, Mapping) else {ONLY: item}
        columns = columns or {key: _Column(count, name) for key in parts}
        if parts.keys() != columns.keys():
            raise DataError(
                f"Expected the inputs {', '.join(columns)} in every item of {name}. "
                f"Found {', '.join(map(str, parts))} in item {index}."
            )
        for key, part in parts.items():
            columns[key].put(index, _example(part, size, origin, named=parts is item))
        labels[index] = label
    found = {key: column.values() for key, column in columns.items()}
    only = found.get(ONLY)
    inputs: Inputs
    inputs, masks = (only, {}) if isinstance(only, Tensor) else with_masks({TOKENS: only} if only else found, name)
    targets, class_names = _classes(labels, getattr(source, "classes", None), name)
    check_counts(targets, class_names, name)
    train, test = stratified_split(examples_of(inputs, targets, len(class_names)), test_share, seed=0)
    return Dataset(name, train, test, class_names, masks=masks)


ONLY = ""
"""Stands for the name of an input that has none."""


class _Column:
    """One input of all examples: a tensor filled row by row, or a list of sequences, whose lengths may differ."""

    def __init__(self, count: int, origin: str) -> None:
        self.count = count
        self.origin = origin
        self.sequences: list[list[int]] = []
        self.tensor: Tensor | None = None

    def put(self, index: int, example: Tensor) -> None:
        """Adds the example at the next index."""
        if self.tensor is None:
            self.tensor = torch.empty(self.count, *example.shape, dtype=example.dtype)
        is_sequence = example.dtype == torch.int64
        if example.dtype != self.tensor.dtype or not (is_sequence or example.shape == self.tensor.shape[1:]):
            raise DataError(
                f"Expected every item of {self.origin} to be like the first, {self.tensor.dtype} of shape "
                f"{tuple(self.tensor.shape[1:])}. Found {example.dtype} of shape {tuple(example.shape)} "
                f"in item {index}."
            )
        if is_sequence:
            self.sequences.append(example.tolist())
        else:
            self.tensor[index] = example

    def values(self) -> Tensor | list[list[int]]:
        """All examples, (N, ...), or sequences of different lengths."""
        if is_ragged(self.sequences):
            return self.sequences
        assert self.tensor is not None
        return torch.tensor(self.sequences) if self.sequences else self.tensor


def _pair(item: Any, origin: str) -> tuple[Any, int]:
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise DataError(f"Expected {origin} to be a pair of input and label. Got {type(item).__name__}.")
    example, label = item
    if isinstance(label, (Tensor, np.ndarray, np.generic)) and math.prod(label.shape) == 1:
        label = label.item()
    if not isinstance(label, int):
        raise DataError(f"Expected an integer as the label of {origin}. Got {type(label).__name__}.")
    return example, int(label)


def _example(item: Any, size: int | None, origin: str, *, named: bool) -> Tensor:
    """(F,), (L,) or (C, H, W); tensors have their channels first, arrays and PIL images last."""
    if isinstance(item, Image.Image):
        channels = 1 if item.mode in GREY_MODES else 3
        height, width = (size, size) if size else (item.height, item.width)
        return torch.from_numpy(image_pixels(item, (channels, height, width)))
    if not isinstance(item, (Tensor, np.ndarray)):
        raise DataError(f"Expected a tensor, an array or a PIL image in {origin}. Got {type(item).__name__}.")
    return input_tensor(item[None], origin, named=named)[0]


def _classes(labels: Tensor, names: Any, origin: str) -> tuple[Tensor, tuple[str, ...]]:
    """Class indices (N,) and class names: those of the data set if it has any, otherwise the labels as texts."""
    if names is None:
        classes = ClassLabels.of(labels.numpy(), origin)
        return classes.encode(labels.numpy(), origin), classes.names
    class_names = tuple(map(str, names))
    if int(labels.min()) < 0 or int(labels.max()) >= len(class_names):
        wrong = int(((labels < 0) | (labels >= len(class_names))).nonzero()[0])
        raise DataError(
            f"Expected labels 0 to {len(class_names) - 1} for the {len(class_names)} classes of {origin}. "
            f"Found {int(labels[wrong])} in item {wrong}."
        )
    return labels, class_names
