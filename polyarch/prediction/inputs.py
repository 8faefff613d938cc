"""Reads tables, arrays, images and folders of images as raw examples for a predictor."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyarch.data import Inputs as RawExamples
from polyarch.data import InputType
from polyarch.data.arrays import read_array, read_named_arrays
from polyarch.data.columns import cells_of, encode_rows
from polyarch.data.decoding import IMAGE_SUFFIXES, decode_image
from polyarch.data.image_folders import image_files
from polyarch.data.table_dataset import TARGET_NAMES
from polyarch.data.table_files import TABLE_SUFFIXES, is_table_file, read_frame
from polyarch.errors import DataError
from polyarch.prediction.predictor import Predictor
from polyarch.tasks import MultiLabel, Regression

DECODERS = 2
"""Threads that decode images; two suffice to keep a network busy."""


@dataclass(frozen=True)
class Inputs:
    """Examples to predict.

    Args:
        ids: the name of each example in the output: the column ``id`` or the number of a row, the position in an
            array, or the path of an image within its folder.
        batches: the raw examples (B, ...) in this order; images are decoded on demand.
        target: the column of a table that holds the true classes or numbers, if there is one.
        targets: (N,) the indices of these classes, or (N, T) the numbers.
    """

    ids: list[str]
    batches: Iterator[Any]
    target: str | None = None
    targets: Tensor | None = None


def read_inputs(path: Path, predictor: Predictor) -> Inputs:
    """Reads examples of the predictor's kind from a file or a folder."""
    if path.is_dir():
        _require(predictor.is_image, path, "a folder", predictor)
        paths = sorted(map(Path, image_files(path)))
        if not paths:
            raise DataError(f"Expected images in {path}. Found none with a suffix such as .png or .jpg.")
        return Inputs([_text(file.relative_to(path)) for file in paths], _decoded(paths, predictor))
    if not path.is_file():
        raise DataError(f"Expected a file or a folder at {path}. Found none.")
    if is_table_file(path):
        _require(predictor.is_table, path, "a table", predictor)
        return _table(path, predictor)
    if path.suffix.lower() == ".npz":
        return _array(path, predictor)
    if path.suffix.lower() in IMAGE_SUFFIXES:
        _require(predictor.is_image, path, "an image", predictor)
        return Inputs([_text(Path(path.name))], _decoded([path], predictor))
    raise DataError(f"Expected {', '.join(TABLE_SUFFIXES)}, .npz, an image or a folder of images. Got {path}.")


def as_input(pixels: Tensor, dtype: InputType) -> Tensor:
    """Converts bytes (C, H, W) to the type of an input; float images have values 0..1."""
    return pixels.float() / 255 if dtype == torch.float32 else pixels


def _require(fits: bool, path: Path, found: str, predictor: Predictor) -> None:
    if not fits:
        wanted = (
            f"rows of a table with {len(predictor.columns)} columns"
            if predictor.is_table
            else f"images {predictor.input_shape}"
            if predictor.is_image
            else f"arrays {', '.join(predictor.input_shape)} in an .npz file"
            if isinstance(predictor.input_shape, dict)
            else f"vectors of {predictor.input_shape} in an .npz file"
        )
        raise DataError(f"Expected {wanted} for this artifact. Found {found}: {path}.")


def _table(path: Path, predictor: Predictor) -> Inputs:
    frame = read_frame(path)
    frame = frame.set_axis([str(name).strip() for name in frame.columns], axis=1)
    if not len(frame):
        raise DataError(f"Expected rows in {path}. Found none.")
    rows = encode_rows(frame, predictor.columns, origin=str(path))
    known = {column.name for column in predictor.columns}
    others = {name: frame[name] for name in frame.columns if name not in known}
    ids = [str(number) for number in range(1, len(frame) + 1)]
    if isinstance(predictor.task, Regression | MultiLabel):
        ids = [str(value) for name, series in others.items() if name.lower() == "id" for value in series] or ids
        target, targets = _known_targets(predictor.task, others, path)
        return Inputs(ids, iter(rows.split(predictor.batch_size)), target, targets)
    truths: dict[str, Tensor] = {}
    index = {name: position for position, name in enumerate(predictor.classes)}
    for name, series in others.items():
        if name.lower() == "id":
            ids = [str(value) for value in series.tolist()]
            continue
        cells = cells_of(series, str(path))
        positions = np.array([*(index.get(word, -1) for word in cells.words()), -1])[cells.codes]
        if (positions >= 0).all():
            truths[name] = torch.from_numpy(positions)
    by_name = [name for name in truths if name.lower() in TARGET_NAMES]
    candidates = by_name or list(truths)
    target = candidates[0] if len(candidates) == 1 else None
    return Inputs(ids, iter(rows.split(predictor.batch_size)), target, truths[target] if target else None)


def _known_targets(
    task: Regression | MultiLabel, columns: Mapping[str, Any], path: Path
) -> tuple[str | None, Tensor | None]:
    """The true numbers or labels of a table that has all of their columns without gaps."""
    if not set(task.names) <= set(columns):
        return None, None
    values = np.stack([cells_of(columns[name], str(path)).as_numbers() for name in task.names], 1)
    if not np.isfinite(values).all():
        return None, None
    numbers = torch.from_numpy(values).float()
    return ", ".join(task.names), numbers if isinstance(task, Regression) else numbers > 0


def _array(path: Path, predictor: Predictor) -> Inputs:
    inputs = _named_arrays(path, predictor)
    ids = [str(number) for number in range(len(inputs))]
    predictor.check(inputs, names=[f"example {number} of {path}" for number in ids])
    return Inputs(ids, iter(inputs.split(predictor.batch_size)))


def _named_arrays(path: Path, predictor: Predictor) -> RawExamples:
    """The array of the only input, or those of all inputs; the masks of padded sequences may be missing."""
    shapes, dtypes = predictor.input_shape, predictor.input_dtype
    if isinstance(shapes, tuple) or isinstance(dtypes, torch.dtype):
        assert isinstance(shapes, tuple) and isinstance(dtypes, torch.dtype)
        return _as_examples(read_array(path), path, shapes, dtypes)
    asked = [name for name in shapes if name not in predictor.masks.values()]
    arrays = read_named_arrays(path, shapes)
    if not arrays and len(asked) == 1:
        arrays = {asked[0]: read_array(path)}
    absent = [name for name in asked if name not in arrays]
    if absent:
        raise DataError(
            f"Expected an array {absent[0]!r} in {path}. Found {', '.join(arrays) or 'none'} of the inputs."
        )
    given: dict[str, Tensor] = {}
    for name, array in arrays.items():
        unpadded = name in predictor.masks and predictor.masks[name] not in arrays and array.ndim == 2
        shape = array.shape[1:] if unpadded else shapes[name]
        given[name] = _as_examples(array, f"{name!r} of {path}", shape, dtypes[name])
    return predictor.completed(given)


def _as_examples(array: np.ndarray, origin: Path | str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Converts an array to (N, *shape) of the type of the input; images may have their channels last, or none."""
    if len(shape) == 3 and array.shape[1:] != shape:
        if array.ndim == 3:
            array = array[:, np.newaxis]
        elif array.ndim == 4:
            array = array.transpose(0, 3, 1, 2)
    if array.shape[1:] != shape or array.ndim == 0 or not len(array):
        raise DataError(
            f"Expected examples of shape (N, {', '.join(map(str, shape))}) in {origin}. Found {array.shape}."
        )
    if array.dtype.kind not in "biuf":
        raise DataError(f"Expected numbers in {origin}. Found {array.dtype}.")
    if dtype == torch.bool and array.dtype == np.bool_:
        return torch.from_numpy(np.array(array))
    if dtype == torch.int64 and array.dtype.kind in "iu":
        return torch.from_numpy(np.array(array, dtype=np.int64))
    if dtype in (torch.bool, torch.int64):
        wanted = "truth values" if dtype == torch.bool else "integers"
        raise DataError(f"Expected {wanted} in {origin}. Found {array.dtype}.")
    if dtype == torch.float32:
        with np.errstate(over="ignore"):
            return torch.from_numpy(np.array(array, dtype=np.float32))
    if array.dtype.kind == "f" or int(array.min()) < 0 or int(array.max()) > 255:
        found = array.dtype if array.dtype.kind == "f" else f"{array.min()}..{array.max()}"
        raise DataError(f"Expected bytes 0..255 in {origin}. Found {found}.")
    return torch.from_numpy(np.array(array, dtype=np.uint8))


def _decoded(paths: Sequence[Path], predictor: Predictor) -> Iterator[Tensor]:
    """Batches of images, decoded on demand, so that a large folder does not fill the memory."""

    shape = predictor.input_shape
    assert isinstance(shape, tuple)  # checked before

    def decode(path: Path) -> Tensor:
        return as_input(decode_image(path, shape), predictor.input_dtype)

    size = predictor.batch_size
    with ThreadPoolExecutor(DECODERS) as pool:
        for start in range(0, len(paths), size):
            yield torch.stack(list(pool.map(decode, paths[start : start + size])))


def _text(path: Path) -> str:
    """A path as valid Unicode, whatever bytes its name has."""
    return os.fsencode(path.as_posix()).decode(errors="replace")
