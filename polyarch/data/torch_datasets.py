"""Reads map-style torch data sets into memory."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from polyarch.data.arrays import input_tensor
from polyarch.data.dataset import Dataset
from polyarch.data.decoding import GREY_MODES, image_pixels
from polyarch.data.examples import examples_of
from polyarch.data.labels import ClassLabels, check_counts
from polyarch.data.named_inputs import Inputs
from polyarch.data.sequences import TOKENS, is_ragged, with_masks
from polyarch.data.split_keys import SplitKeys
from polyarch.data.targets import TargetKind, names_of, target_encoding
from polyarch.errors import DataError


def read_torch_dataset(
    source: torch.utils.data.Dataset[Any],
    *,
    size: int | None = None,
    task: TargetKind | None = None,
    test_share: float | None = 0.2,
    keys: SplitKeys | None = None,
) -> Dataset:
    """Reads all pairs of an input (tensor, array or PIL image), or a mapping of several by name, and a target.

    A target is an integer label, a number, or several.

    Args:
        size: crops and resizes PIL images to this side; by default they must all have the same size.
        task: what targets are; integers are classes, several 0 or 1 are labels, anything else is numbers.
    """
    name = type(source).__name__
    if not hasattr(source, "__len__") or isinstance(source, torch.utils.data.IterableDataset):
        raise DataError(f"Expected a map-style data set with a length. Got {name}.")
    count = len(source)
    if count == 0:
        raise DataError(f"Expected at least one example in {name}. Got an empty data set.")
    columns: dict[str, _Column] = {}
    targets: list[Any] = []
    for index in range(count):
        origin = f"item {index} of {name}"
        item, target = _pair(source[index], origin)
        parts = item if isinstance(item, Mapping) else {ONLY: item}
        columns = columns or {key: _Column(count, name) for key in parts}
        if parts.keys() != columns.keys():
            raise DataError(
                f"Expected the inputs {', '.join(columns)} in every item of {name}. "
                f"Found {', '.join(map(str, parts))} in item {index}."
            )
        for key, part in parts.items():
            columns[key].put(index, _example(part, size, origin, named=parts is item))
        targets.append(target)
    found = {key: column.values() for key, column in columns.items()}
    only = found.get(ONLY)
    inputs: Inputs
    inputs, masks = (only, {}) if isinstance(only, Tensor) else with_masks({TOKENS: only} if only else found, name)
    encoded, class_names, target_names = encoded_targets(targets, task, getattr(source, "classes", None), name)
    if class_names:
        check_counts(encoded, class_names, name, fewest=0 if test_share is None else 3)
    split = (keys or SplitKeys()).split(count, name)
    examples = examples_of(inputs, encoded, len(class_names))
    data = Dataset.divided(name, examples, class_names, test_share, split, target_names=target_names)
    return replace(data, masks=masks)


def encoded_targets(
    targets: Sequence[Any] | np.ndarray[Any, Any], task: TargetKind | None, classes: Any, origin: str
) -> tuple[Tensor, tuple[str, ...], tuple[str, ...]]:
    """The targets as a tensor, and the names of classes, or of numbers or labels."""
    shapes = {np.shape(target) for target in targets}
    if len(shapes) > 1:
        raise DataError(f"Expected targets of one shape in {origin}. Found {sorted(shapes)}.")
    values = np.array(targets)
    if task not in (None, "classification") or values.ndim == 2 or values.dtype.kind == "f":
        encoding = target_encoding(values, origin, kind=task or (None if values.ndim == 2 else "regression"))
        _, target_names = names_of(encoding)
        if target_names:
            return encoding.encode(values, origin), (), target_names
    fractions = np.flatnonzero(values != np.floor(values))
    if len(fractions):
        first = int(fractions[0])
        raise DataError(f"Expected integers as the labels of {origin}. Found {values[first]} in item {first}.")
    encoded, class_names = named_classes(torch.from_numpy(values.astype(np.int64)), classes, origin)
    return encoded, class_names, ()


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


def _pair(item: Any, origin: str) -> tuple[Any, Any]:
    """An input and its target: a number, or a list of several."""
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise DataError(f"Expected {origin} to be a pair of input and target. Got {type(item).__name__}.")
    example, target = item
    if isinstance(target, (Tensor, np.ndarray, np.generic)):
        target = target.item() if math.prod(target.shape) == 1 else target.tolist()
    if not isinstance(target, (int, float, list)):
        raise DataError(f"Expected a number, or several, as the target of {origin}. Got {type(target).__name__}.")
    return example, target


def _example(item: Any, size: int | None, origin: str, *, named: bool) -> Tensor:
    """(F,), (L,) or (C, H, W); tensors have their channels first, arrays and PIL images last."""
    if isinstance(item, Image.Image):
        channels = 1 if item.mode in GREY_MODES else 3
        height, width = (size, size) if size else (item.height, item.width)
        return torch.from_numpy(image_pixels(item, (channels, height, width)))
    if not isinstance(item, (Tensor, np.ndarray)):
        raise DataError(f"Expected a tensor, an array or a PIL image in {origin}. Got {type(item).__name__}.")
    return input_tensor(item[None], origin, named=named)[0]


def named_classes(labels: Tensor, names: Any, origin: str) -> tuple[Tensor, tuple[str, ...]]:
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
