"""Unlabelled examples, converted to the format of the labelled data that they are used with."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polyarch.data.arrays import read_array, read_inputs, read_named_arrays
from polyarch.data.columns import encode_rows
from polyarch.data.dataset import Dataset
from polyarch.data.examples import Examples, NamedData, TableData, examples_of, resident
from polyarch.data.huggingface import is_huggingface_folder
from polyarch.data.image_files import ImageFiles, ImagePaths, fits_in_memory
from polyarch.data.image_folders import TRAIN_SIDE, image_files
from polyarch.data.named_inputs import Inputs, shape_of, type_of
from polyarch.data.resizing import shaped_like
from polyarch.data.sources import DATASETS, load
from polyarch.data.table_files import is_table_file, read_frame, table_files
from polyarch.errors import DataError

FEWEST = 2
"""The fewest examples: batch statistics need at least two."""


def unlabelled_examples(source: Any, data: Dataset) -> Examples:
    """Reads the inputs of a source in the shape and type of the data; every label is 0 and has no meaning.

    Of sources with a training and a test set only the training set is used.

    Args:
        source: a known name; the path of a folder of images, of a table with the columns of the data, or of an .npz
            file with an array x; an array; or anything else that `polyarch.data.load` takes, whose labels are ignored.
    """
    examples = _read(source, data)
    if len(examples) < FEWEST:
        raise DataError(f"Expected {FEWEST} or more examples without labels. Found {len(examples)}.")
    return examples


def _read(source: Any, data: Dataset) -> Examples:
    if isinstance(source, Dataset):
        return _alike(source.train, data)
    path = Path(source).expanduser() if isinstance(source, str | Path) and source not in DATASETS else None
    if path is not None and path.is_dir() and not is_huggingface_folder(path) and not table_files(path):
        return _images(path, data)
    if path is not None and path.is_file() and path.suffix.lower() == ".npz":
        shape = data.input_shape
        found = read_named_arrays(path, shape) if isinstance(shape, dict) else read_array(path)
        return _inputs(read_inputs(found, str(path))[0], data)
    if path is not None and path.is_file() and is_table_file(path):
        return _rows(path, data)
    if isinstance(source, str | Path | tuple | torch.utils.data.Dataset):
        return _alike(load(source).train, data)
    return _inputs(read_inputs(source, "the examples without labels")[0], data)


def _images(folder: Path, data: Dataset) -> Examples:
    """All images below a folder, in whatever subfolders."""
    if not data.is_image:
        raise DataError(f"Expected examples of shape {data.input_shape} without labels. Found a folder: {folder}.")
    side = folder / TRAIN_SIDE
    paths = sorted(image_files(side if side.is_dir() else folder))
    if not paths:
        raise DataError(f"Expected images in {folder}. Found none with a suffix such as .png or .jpg.")
    images = ImageFiles(
        ImagePaths(tuple(paths)), torch.arange(len(paths)), _no_labels(len(paths)), data.classes, data.input_shape
    )
    if data.is_bytes and not fits_in_memory(images):
        return images
    return _inputs(images.resident().inputs, data)


def _rows(path: Path, data: Dataset) -> Examples:
    if not data.is_table:
        raise DataError(f"Expected examples of shape {data.input_shape} without labels. Found a table: {path}.")
    frame = read_frame(path)
    rows = encode_rows(
        frame.set_axis([str(name).strip() for name in frame.columns], axis=1), data.columns, origin=str(path)
    )
    return TableData(rows, _no_labels(len(rows)), data.classes)


def _alike(examples: Examples, data: Dataset) -> Examples:
    """Converts examples of another data set; those that already have the right format stay on disk."""
    if isinstance(examples, ImageFiles) and data.is_bytes and examples.input_shape == data.input_shape:
        return examples
    return _inputs(examples.inputs if isinstance(examples, NamedData) else resident(examples).inputs, data)


def _inputs(inputs: Inputs, data: Dataset) -> Examples:
    """Converts images to the size, channels and type of the data if these differ; other inputs must match."""
    if isinstance(inputs, Tensor) and inputs.dtype == torch.int64 and data.input_dtype == torch.float32:
        inputs = inputs.float()  # whole numbers
    if shape_of(inputs) != data.input_shape or type_of(inputs) != data.input_dtype:
        if not isinstance(inputs, Tensor) or inputs.dim() != 4 or not data.is_image:
            raise DataError(f"Expected examples of shape {data.input_shape} without labels. Got {shape_of(inputs)}.")
        inputs = shaped_like(inputs, data.input_shape, as_bytes=data.is_bytes)
    if isinstance(inputs, Tensor) and data.is_table:
        return TableData(inputs, _no_labels(len(inputs)), data.classes)
    return examples_of(inputs, _no_labels(len(inputs)), data.classes)


def _no_labels(count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.int64)
