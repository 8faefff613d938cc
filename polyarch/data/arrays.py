"""Data sets from arrays: pairs (X, y) and .npz files, with one input or several named ones."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyarch.data.claimed_sizes import check_claims
from polyarch.data.dataset import Dataset
from polyarch.data.examples import NamedData, TensorData, examples_of
from polyarch.data.labels import Array, ClassLabels, check_counts
from polyarch.data.named_inputs import Inputs, type_of
from polyarch.data.sequences import TOKENS, check_tokens, is_ragged, with_masks
from polyarch.data.split_keys import SplitKeys
from polyarch.data.splits import Split
from polyarch.data.targets import TargetEncoding, TargetKind, names_of, target_encoding
from polyarch.errors import CorruptFile, DataError, InvalidInput, PolyarchError, closest_name, first_line

CHANNELS = (1, 3, 4)
PAIRS = (
    ("x", "y"), ("X", "y"), ("inputs", "targets"),
    *((inputs, labels) for inputs in ("data", "images") for labels in ("labels", "label", "targets", "target", "y")),
)  # fmt: skip
SPLITS = (("x_train", "y_train", "x_test", "y_test"), ("X_train", "y_train", "X_test", "y_test"))
LABELS = ("y", "labels", "label", "targets", "target")
"""The names of labels beside several named inputs."""


def read_pair(
    inputs: Any,
    targets: Any,
    *,
    task: TargetKind | None = None,
    test_share: float | None = 0.2,
    keys: SplitKeys | None = None,
) -> Dataset:
    """Reads X (N, ...) and y (N,) or (N, T); ``test_share`` of them becomes the test set.

    X is an array, a tensor, a list of sequences of tokens, or a mapping of names to any of these.
    """
    return _divided("arrays", inputs, targets, ("X", "y"), task, test_share, (keys or SplitKeys()).split)


def read_npz(
    path: Path, *, task: TargetKind | None = None, test_share: float | None = 0.2, keys: SplitKeys | None = None
) -> Dataset:
    """Reads the arrays of a file.

    They are x and y (or inputs and targets, data and labels, ...), or x_train, y_train, x_test and y_test, or several
    named inputs beside y: image, table and y, or image_train, table_train, y_train, image_test, ... Groups and times to
    split by are arrays of the file, too.
    """
    arrays, keys = _Arrays.of(path), keys or SplitKeys()
    split = partial(keys.split, column=arrays.key)
    for names in SPLITS:
        if all(name in arrays.names for name in names):
            sides = [(arrays[names[side]], arrays[names[side + 1]]) for side in (0, 2)]
            return _sides(arrays, sides, names, task, keys)
    for inputs, labels in PAIRS:
        if inputs in arrays.names and labels in arrays.names:
            origins = [arrays.origin(name) for name in (inputs, labels)]
            data = _divided(path.name, arrays[inputs], arrays[labels], origins, task, test_share, split)
            others = [name for name in arrays.names if name not in (inputs, labels, *keys.columns)]
            notes = tuple(f"Array {name!r} is not used: {inputs!r} is the only input." for name in others)
            return replace(data, notes=notes)
    for labels in LABELS:
        train, test = arrays.named_inputs(labels, "_train"), arrays.named_inputs(labels, "_test")
        if train and train.keys() == test.keys():
            named_sides = [(train, arrays[f"{labels}_train"]), (test, arrays[f"{labels}_test"])]
            return _sides(arrays, named_sides, ("*_train", f"{labels}_train", "*_test", f"{labels}_test"), task, keys)
        if named := arrays.named_inputs(labels, but=keys.columns):
            origins = [str(path), arrays.origin(labels)]
            return _divided(path.name, named, arrays[labels], origins, task, test_share, split)
    raise DataError(
        f"Expected arrays x and y, or x_train, y_train, x_test and y_test, in {path}. "
        f"Found {', '.join(arrays.names) or 'none'}."
    )


@dataclass(frozen=True)
class _Arrays:
    """The arrays of an .npz file, each read when it is asked for: others may hold anything."""

    path: Path
    names: tuple[str, ...]

    @classmethod
    def of(cls, path: Path) -> "_Arrays":
        with _opened(path) as file:
            return cls(path, tuple(file.files))

    def __getitem__(self, name: str) -> Array:
        with _opened(self.path) as file:
            return np.asarray(file[name])

    def origin(self, name: str) -> str:
        return f"array {name!r} of {self.path}"

    def key(self, name: str) -> Array:
        """The array to split by."""
        if name not in self.names:
            hint = closest_name(name, self.names)
            raise InvalidInput(f"Expected an array of {self.path} to split by. Got {name!r}.{hint}")
        return self[name].reshape(-1)

    def named_inputs(self, labels: str, side: str = "", but: Sequence[str] = ()) -> dict[str, Array]:
        """The inputs beside the labels, by their names without the side; none if there are no such labels.

        Args:
            but: arrays that are no inputs.
        """
        if f"{labels}{side}" not in self.names:
            return {}
        names = [name.removesuffix(side) for name in self.names if name.endswith(side)]
        return {name: self[f"{name}{side}"] for name in names if name not in (labels, *but)}


def read_inputs(values: Any, origin: str) -> tuple[Inputs, dict[str, str]]:
    """Reads one input or several; sequences of different lengths are padded and come with a mask.

    Returns:
        The inputs, and padded input -> the name of its mask.
    """
    if is_ragged(values):
        return with_masks({TOKENS: values}, origin)
    if not isinstance(values, Mapping):
        return input_tensor(values, origin), {}
    return with_masks(
        {
            name: value if is_ragged(value) else input_tensor(value, f"{name!r} of {origin}", named=True)
            for name, value in values.items()
        },
        origin,
    )


def input_tensor(values: Any, origin: str, *, named: bool = False) -> Tensor:
    """(N, F), (N, H, W), (N, H, W, C) or (N, C, H, W) -> (N, F) or (N, C, H, W), bytes, float32 or tokens.

    If both the second and the last dimension could be channels, numpy arrays have them last and tensors second.
    Integers (N, L) of more than eight bits are tokens and become int64.

    Args:
        named: whether it is one of several inputs, of which truth values (N, L) are masks and stay what they are.
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
    if array.dtype == np.uint8 or (named and array.dtype == np.bool_):
        return torch.from_numpy(np.array(array))
    if array.ndim == 2 and array.dtype.kind in "iu":
        return check_tokens(torch.from_numpy(np.array(array, dtype=np.int64)), origin)
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
    data, masks = _examples(inputs, targets, encoding, origins)
    class_names, target_names = names_of(encoding)
    if class_names:
        check_counts(data.targets, class_names, origins[1], fewest=0 if test_share is None else 3)
    found = Dataset.divided(name, data, class_names, test_share, split(len(data), name), target_names=target_names)
    return replace(found, masks=masks)


def _sides(arrays: _Arrays, sides: Any, names: Sequence[str], task: TargetKind | None, keys: SplitKeys) -> Dataset:
    """Training and test examples, each as inputs and targets."""
    if keys.given:
        raise InvalidInput(f"Expected arrays x and y in {arrays.path} to split by groups or times. Found {names[0]!r}.")
    origins = [arrays.origin(name) for name in names]
    encoding = target_encoding(target_array(sides[0][1], origins[1]), origins[1], kind=task)
    (train, masks), (test, _) = (
        _examples(inputs, targets, encoding, origins[2 * side : 2 * side + 2])
        for side, (inputs, targets) in enumerate(sides)
    )
    if train.input_shape != test.input_shape:
        raise DataError(
            f"Expected examples of one shape in {arrays.path}. Found {train.input_shape} in {names[0]!r} and "
            f"{test.input_shape} in {names[2]!r}."
        )
    if type_of(train.inputs) != type_of(test.inputs):
        raise DataError(
            f"Expected examples of one type in {arrays.path}. Found {type_of(train.inputs)} in {names[0]!r} and "
            f"{type_of(test.inputs)} in {names[2]!r}."
        )
    class_names, target_names = names_of(encoding)
    if class_names:
        check_counts(train.targets, class_names, origins[1], fewest=2)
    return Dataset(arrays.path.name, train, test, class_names, masks=masks, target_names=target_names)


def _examples(
    inputs: Any, targets: Any, encoding: TargetEncoding, origins: Any
) -> tuple[TensorData | NamedData, dict[str, str]]:
    read, masks = read_inputs(inputs, origins[0])
    array = target_array(targets, origins[1])
    if len(read) != len(array):
        raise DataError(f"Expected one target per example in {origins[1]}. Found {len(array)} for {len(read)}.")
    classes = len(encoding.names) if isinstance(encoding, ClassLabels) else 0
    return examples_of(read, encoding.encode(array, origins[1]), classes), masks


def read_array(path: Path) -> Array:
    """Reads the array x of an .npz file, or its only array."""
    with _opened(path) as arrays:
        names = list(arrays.files)
        name = "x" if "x" in names else names[0] if len(names) == 1 else None
        if name is not None:
            return np.asarray(arrays[name])
    raise DataError(f"Expected an array x, or only one array, in {path}. Found {', '.join(names) or 'none'}.")


def read_named_arrays(path: Path, names: Collection[str]) -> dict[str, Array]:
    """Reads those of the named arrays that an .npz file has; it may have others."""
    with _opened(path) as arrays:
        return {name: np.asarray(arrays[name]) for name in names if name in arrays.files}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            if isinstance(arrays, np.ndarray):
                raise ValueError("a single array without a name")
            check_claims(arrays.zip)
            yield arrays
    except PolyarchError:
        raise
    except Exception as error:  # damaged bytes make zip, numpy and its parser of headers raise all kinds of errors
        raise CorruptFile(f"Expected {path} to be a file of plain numpy arrays. Found: {first_line(error)}.") from None
