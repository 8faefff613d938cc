"""Reads map-style torch data sets into memory."""

import math
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from polyarch.data.arrays import input_tensor
from polyarch.data.dataset import Dataset
from polyarch.data.decoding import GREY_MODES, image_pixels
from polyarch.data.examples import TensorData
from polyarch.data.labels import ClassLabels, check_counts
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
    """Reads all pairs of an input (tensor, array or PIL image) and a target: an integer label, a number, or several.

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
    inputs: Tensor | None = None
    found: list[Any] = []
    for index in range(count):
        item, target = _pair(source[index], f"item {index} of {name}")
        example = _example(item, size, f"item {index} of {name}")
        if inputs is None:
            inputs = torch.empty(count, *example.shape, dtype=example.dtype)
        if example.shape != inputs.shape[1:] or example.dtype != inputs.dtype:
            raise DataError(
                f"Expected every item of {name} to be like the first, {inputs.dtype} of shape "
                f"{tuple(inputs.shape[1:])}. Found {example.dtype} of shape {tuple(example.shape)} in item {index}."
            )
        inputs[index] = example
        found.append(target)
    assert inputs is not None
    if len({np.shape(target) for target in found}) > 1:
        raise DataError(f"Expected targets of one shape in {name}. Found {sorted({np.shape(one) for one in found})}.")
    values, split = np.array(found), (keys or SplitKeys()).split(count, name)
    if task not in (None, "classification") or values.ndim == 2 or values.dtype.kind == "f":
        encoding = target_encoding(values, name, kind=task or (None if values.ndim == 2 else "regression"))
        _, target_names = names_of(encoding)
        if target_names:
            numbers = TensorData(inputs, encoding.encode(values, name))
            return Dataset.divided(name, numbers, (), test_share, split, target_names=target_names)
    fractions = np.flatnonzero(values != np.floor(values))
    if len(fractions):
        first = int(fractions[0])
        raise DataError(f"Expected integers as the labels of {name}. Found {values[first]} in item {first}.")
    labels = torch.from_numpy(values.astype(np.int64))
    targets, class_names = named_classes(labels, getattr(source, "classes", None), name)
    check_counts(targets, class_names, name, fewest=0 if test_share is None else 3)
    return Dataset.divided(name, TensorData(inputs, targets, len(class_names)), class_names, test_share, split)


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


def _example(item: Any, size: int | None, origin: str) -> Tensor:
    """(F,) or (C, H, W); tensors have their channels first, arrays and PIL images last."""
    if isinstance(item, Image.Image):
        channels = 1 if item.mode in GREY_MODES else 3
        height, width = (size, size) if size else (item.height, item.width)
        return torch.from_numpy(image_pixels(item, (channels, height, width)))
    if not isinstance(item, (Tensor, np.ndarray)):
        raise DataError(f"Expected a tensor, an array or a PIL image in {origin}. Got {type(item).__name__}.")
    return input_tensor(item[None], origin)[0]


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
