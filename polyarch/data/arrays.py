"""Data sets from arrays: pairs (X, y) and .npz files."""

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyarch.data.dataset import Dataset
from polyarch.data.examples import TensorData
from polyarch.data.labels import Array, ClassLabels, check_counts
from polyarch.data.split_keys import SplitKeys
from polyarch.data.splits import Split
from polyarch.data.targets import TargetEncoding, TargetKind, names_of, target_encoding
from polyarch.errors import CorruptFile, DataError, InvalidInput, closest_name, first_line

CHANNELS = (1, 3, 4)
PAIRS = (
    ("x", "y"), ("X", "y"), ("inputs", "targets"),
    *((inputs, labels) for inputs in ("data", "images") for labels in ("labels", "label", "targets", "target", "y")),
)  # fmt: skip
SPLITS = (("x_train", "y_train", "x_test", "y_test"), ("X_train", "y_train", "X_test", "y_test"))


def read_pair(
    inputs: Any,
    targets: Any,
    *,
    task: TargetKind | None = None,
    test_share: float | None = 0.2,
    keys: SplitKeys | None = None,
) -> Dataset:
    """Reads arrays or tensors X (N, ...) and y (N,) or (N, T); ``test_share`` of them becomes the test set."""
    return _divided("arrays", inputs, targets, ("X", "y"), task, test_share, (keys or SplitKeys()).split)


def read_npz(
    path: Path, *, task: TargetKind | None = None, test_share: float | None = 0.2, keys: SplitKeys | None = None
) -> Dataset:
    """Reads arrays x and y (or inputs and targets, data and labels, ...), or x_train, y_train, x_test and y_test.

    Groups and times to split by are arrays of the file, too.
    """
    keys = keys or SplitKeys()
    arrays = _read_arrays(path, keys.column)
    for names in SPLITS:
        if all(name in arrays for name in names):
            if keys.given:
                raise InvalidInput(
                    f"Expected arrays x and y in {path} to split by groups or times. Found {names[0]!r}."
                )
            origins = [f"array {name!r} of {path}" for name in names]
            encoding = target_encoding(target_array(arrays[names[1]], origins[1]), origins[1], kind=task)
            train, test = (
                _examples(arrays[names[side]], arrays[names[side + 1]], encoding, origins[side : side + 2])
                for side in (0, 2)
            )
            if train.input_shape != test.input_shape:
                raise DataError(
                    f"Expected examples of one shape in {path}. Found {train.input_shape} in {names[0]!r} and "
                    f"{test.input_shape} in {names[2]!r}."
                )
            return _dataset(path.name, train, test, encoding, origins[1], fewest=2)
    for inputs, labels in PAIRS:
        if inputs in arrays and labels in arrays:
            origins = [f"array {name!r} of {path}" for name in (inputs, labels)]
            split = partial(keys.split, column=partial(_key_array, arrays, path))
            return _divided(path.name, arrays[inputs], arrays[labels], origins, task, test_share, split)
    raise DataError(
        f"Expected arrays x and y, or x_train, y_train, x_test and y_test, in {path}. "
        f"Found {', '.join(arrays) or 'none'}."
    )


def input_tensor(values: Any, origin: str) -> Tensor:
    """(N, F), (N, H, W), (N, H, W, C) or (N, C, H, W) -> (N, F) or (N, C, H, W), bytes or float32.

    If both the second and the last dimension could be channels, numpy arrays have them last and tensors second.
    """
    is_tensor = isinstance(values, Tensor)
    array = values.detach().cpu().numpy() if is_tensor else np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise DataError(f"Expected numbers in {origin}. Found {array.dtype}.")
    if array.ndim == 3:
        array = array[:, np.newaxis]
    elif array.ndim == 4:
        first, last = array.shape[1] in CHANNELS, array.shape[3] in CHANNELS
        if not first and not last:
            raise DataError(f"Expected images with 1, 3 or 4 channels in {origin}. Found shape {array.shape}.")
        if last and not (first and is_tensor):
            array = array.transpose(0, 3, 1, 2)
    elif array.ndim != 2:
        raise DataError(f"Expected rows or images, (N, F) to (N, C, H, W), in {origin}. Found shape {array.shape}.")
    if array.size == 0:
        raise DataError(f"Expected at least one number in {origin}. Found shape {array.shape}.")
    if array.dtype == np.uint8:
        return torch.from_numpy(np.array(array))
    with np.errstate(over="ignore"):
        floats = np.array(array, dtype=np.float32)
    unusable = ~np.isfinite(floats).reshape(len(floats), -1).all(1)
    if unusable.any():
        row = int(np.flatnonzero(unusable)[0])
        raise DataError(f"Expected finite numbers in {origin}. Found NaN or infinity in example {row}.")
    return torch.from_numpy(floats)


def target_array(values: Any, origin: str) -> Array:
    """(N,), (N, 1) or (N, T) targets -> (N,) or (N, T) array."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or array.size == 0:
        raise DataError(f"Expected targets (N,) or (N, T) in {origin}. Found shape {array.shape}.")
    return np.asarray(array)


def _key_array(arrays: Mapping[str, Array], path: Path, name: str) -> Array:
    if name not in arrays:
        raise InvalidInput(f"Expected an array of {path} to split by. Got {name!r}.{closest_name(name, arrays)}")
    return arrays[name].reshape(-1)


def _divided(
    name: str,
    inputs: Any,
    targets: Any,
    origins: Any,
    task: TargetKind | None,
    test_share: float | None,
    split: Callable[[int, str], Split],
) -> Dataset:
    encoding = target_encoding(target_array(targets, origins[1]), origins[1], kind=task)
    data = _examples(inputs, targets, encoding, origins)
    class_names, target_names = names_of(encoding)
    if class_names:
        check_counts(data.targets, class_names, origins[1], fewest=0 if test_share is None else 3)
    return Dataset.divided(name, data, class_names, test_share, split(len(data), name), target_names=target_names)


def _dataset(
    name: str, train: TensorData, test: TensorData, encoding: TargetEncoding, origin: str, *, fewest: int
) -> Dataset:
    class_names, target_names = names_of(encoding)
    if class_names:
        check_counts(train.targets, class_names, origin, fewest=fewest)
    return Dataset(name, train, test, class_names, target_names=target_names)


def _examples(inputs: Any, targets: Any, encoding: TargetEncoding, origins: Any) -> TensorData:
    tensor = input_tensor(inputs, origins[0])
    array = target_array(targets, origins[1])
    if len(tensor) != len(array):
        raise DataError(f"Expected one target per example in {origins[1]}. Found {len(array)} for {len(tensor)}.")
    classes = len(encoding.names) if isinstance(encoding, ClassLabels) else 0
    return TensorData(tensor, encoding.encode(array, origins[1]), classes)


def _read_arrays(path: Path, key: str | None) -> dict[str, Array]:
    wanted = {key, *(name for names in (*SPLITS, *PAIRS) for name in names)}
    with _opened(path) as arrays:  # reads only wanted arrays; others may hold anything
        return {name: arrays[name] if name in wanted else np.empty(0) for name in arrays.files}


def read_array(path: Path) -> Array:
    """Reads the array x of an .npz file, or its only array."""
    with _opened(path) as arrays:
        names = list(arrays.files)
        name = "x" if "x" in names else names[0] if len(names) == 1 else None
        if name is not None:
            return np.asarray(arrays[name])
    raise DataError(f"Expected an array x, or only one array, in {path}. Found {', '.join(names) or 'none'}.")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            if isinstance(arrays, np.ndarray):
                raise ValueError("a single array without a name")
            yield arrays
    except (KeyError, ValueError, OSError, EOFError, SyntaxError, zipfile.BadZipFile, zlib.error) as error:
        raise CorruptFile(f"Expected {path} to be a file of plain numpy arrays. Found: {first_line(error)}.") from None
