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
from polyarch.errors import DataError


def read_torch_dataset(
    source: torch.utils.data.Dataset[Any],
    *,
    size: int | None = None,
    test_share: float | None = 0.2,
    keys: SplitKeys | None = None,
) -> Dataset:
    """Reads all pairs of an input (tensor, array or PIL image) and an integer label.

    Args:
        size: crops and resizes PIL images to this side; by default they must all have the same size.
    """
    name = type(source).__name__
    if not hasattr(source, "__len__") or isinstance(source, torch.utils.data.IterableDataset):
        raise DataError(f"Expected a map-style data set with a length. Got {name}.")
    count = len(source)
    if count == 0:
        raise DataError(f"Expected at least one example in {name}. Got an empty data set.")
    inputs: Tensor | None = None
    labels = torch.empty(count, dtype=torch.int64)
    for index in range(count):
        item, label = _pair(source[index], f"item {index} of {name}")
        example = _example(item, size, f"item {index} of {name}")
        if inputs is None:
            inputs = torch.empty(count, *example.shape, dtype=example.dtype)
        if example.shape != inputs.shape[1:] or example.dtype != inputs.dtype:
            raise DataError(
                f"Expected every item of {name} to be like the first, {inputs.dtype} of shape "
                f"{tuple(inputs.shape[1:])}. Found {example.dtype} of shape {tuple(example.shape)} in item {index}."
            )
        inputs[index] = example
        labels[index] = label
    assert inputs is not None
    targets, class_names = named_classes(labels, getattr(source, "classes", None), name)
    check_counts(targets, class_names, name, fewest=0 if test_share is None else 3)
    split = (keys or SplitKeys()).split(count, name)
    return Dataset.divided(name, TensorData(inputs, targets, len(class_names)), class_names, test_share, split)


def _pair(item: Any, origin: str) -> tuple[Any, int]:
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise DataError(f"Expected {origin} to be a pair of input and label. Got {type(item).__name__}.")
    example, label = item
    if isinstance(label, (Tensor, np.ndarray, np.generic)) and math.prod(label.shape) == 1:
        label = label.item()
    if not isinstance(label, int):
        raise DataError(f"Expected an integer as the label of {origin}. Got {type(label).__name__}.")
    return example, int(label)


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
