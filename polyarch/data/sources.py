"""`load`: a data set from its name, a file, a folder, arrays or a torch data set.

The digits: Alpaydin & Kaynak (1998), "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import DataLoader

from polyarch.data.arrays import read_npz, read_pair
from polyarch.data.cifar import CIFAR10, CIFAR100, CifarFormat, cifar_folder, read_cifar
from polyarch.data.dataset import Dataset
from polyarch.data.examples import Examples, TensorData, stratified_split
from polyarch.data.held_out import examples_like
from polyarch.data.huggingface import is_huggingface_folder, read_huggingface_folder, read_huggingface_table
from polyarch.data.idx import DIGIT_CLASSES, FASHION_CLASSES, KUZUSHIJI_CLASSES, idx_folder, read_idx_dataset
from polyarch.data.image_folders import read_image_folder, require_text
from polyarch.data.imagenet16 import imagenet16_folder, read_imagenet16
from polyarch.data.labels import check_counts
from polyarch.data.loader_examples import read_loader
from polyarch.data.locations import data_root
from polyarch.data.spirals import spirals
from polyarch.data.split_keys import SplitKeys
from polyarch.data.splits import Split
from polyarch.data.svhn import read_svhn, svhn_folder
from polyarch.data.table_dataset import TableSource, rows_like
from polyarch.data.table_files import (
    TABLE_SUFFIXES,
    is_table_file,
    read_table,
    read_table_file,
    read_table_folder,
    table_files,
)
from polyarch.data.targets import TargetKind
from polyarch.data.torch_datasets import read_torch_dataset
from polyarch.errors import DataError, InvalidInput, MissingData, UnknownName

Source = (
    str
    | Path
    | torch.utils.data.Dataset[Any]
    | DataLoader[Any]
    | tuple[ArrayLike | Tensor | Mapping[str, Any], ArrayLike | Tensor]
)


def load(
    source: Source,
    *,
    root: Path | None = None,
    target: str | None = None,
    size: int | None = None,
    task: TargetKind | None = None,
    test_share: float = 0.2,
    valid: Source | None = None,
    test: Source | None = None,
    groups: str | ArrayLike | None = None,
    times: str | ArrayLike | None = None,
) -> Dataset:
    """Loads a data set, split into training and test examples, and validation examples where there are some.

    Args:
        source: one of ``DATASETS``; a table (.csv, .csv.gz, .parquet), a file of arrays (.npz), a folder of images, of
            train.csv and test.csv or of a Hugging Face data set, each by its path, also in ``data_root()``; a pair of
            arrays (X, y), in which X may be a mapping of names to several inputs; a torch data set; a torch
            ``DataLoader``, whose examples are read anew in every epoch.
        root: the folder that holds a subfolder for each named set; ``data_root()`` by default.
        target: the column of a table to predict; several, separated by commas, are numbers or labels.
        size: the side of images in pixels.
        task: what targets are; by default what they look like, see `polyarch.data.targets.recognised`.
        test_share: the share of every class to test on if the source has no test examples.
        valid: validation examples, from any source, if this one has none; their classes and columns are known.
        test: the same for test examples.
        groups: a column of a table, an array of an .npz file, or an array with one value for every example: examples of
            one group are held out together.
        times: the same for times: the latest examples are held out.
    """
    keys = SplitKeys(groups, times)
    _check_keys(source, keys)
    if target is not None and not _may_have_columns(source):
        raise InvalidInput(f"Expected a table for target {target!r}. Got {_name_of(source)}.")
    reading = Reading(target, size, task, test_share if test is None else None, keys)
    data = _load(source, root or data_root(), reading)
    return with_held_out(data, valid=valid, test=test, keys=keys)


def with_held_out(
    data: Dataset,
    *,
    valid: Source | Dataset | None = None,
    test: Source | Dataset | None = None,
    keys: SplitKeys | None = None,
) -> Dataset:
    """The data set with validation or test examples, from any source, that it does not have itself.

    Args:
        keys: what the examples of a table were split by; the same must be true of these.
    """
    if test is not None:
        if data.test_origin is not None:
            raise InvalidInput(
                f"Expected data without test examples to test on {_name_of(test)}. {data.name} has its own."
            )
        if data.kind == "classification":
            check_counts(data.train.targets, data.class_names, data.name, fewest=1)
        part, split = _held_out(test, data, keys or SplitKeys())
        data = replace(data, test=part, split=split, test_origin=f"those of {_name_of(test)}")
    if valid is not None:
        if data.valid is not None:
            raise InvalidInput(
                f"Expected data without validation examples to validate on {_name_of(valid)}. {data.name} has its own."
            )
        part, split = _held_out(valid, data, keys or SplitKeys())
        data = replace(data, valid=part, split=split, valid_origin=f"those of {_name_of(valid)}")
    return data


def _held_out(source: Source | Dataset, data: Dataset, keys: SplitKeys) -> tuple[Examples, Split]:
    """All examples of a source, or its training examples if it has others, and the split of the data beside them."""
    if data.is_table and isinstance(source, (str, Path)) and source not in DATASETS:
        return rows_like(_table(_existing(source)), data, keys)
    if isinstance(source, Dataset):
        other = source
    else:
        is_sized = data.is_image and data.is_bytes and not isinstance(source, tuple | DataLoader)
        size = data.input_shape[1] if is_sized else None
        other = _load(source, data_root(), Reading(None, size, data.kind, None, SplitKeys()))
    if data.is_table or other.is_table:
        what = "the path of a table" if data.is_table else "no table"
        raise InvalidInput(f"Expected {what} to hold out beside {data.name}. Got {other.name}.")
    return examples_like(other, data, other.name), data.split


def _table(path: Path) -> TableSource:
    """The rows of a file, of the training file of a folder or of the training split of a Hugging Face folder."""
    if path.is_dir() and is_huggingface_folder(path):
        return read_huggingface_table(path)
    return read_table(table_files(path).get("train", path) if path.is_dir() else path)


@dataclass(frozen=True)
class Reading:
    """How a source is read; see `load`."""

    target: str | None
    size: int | None
    task: TargetKind | None
    test_share: float | None
    keys: SplitKeys

    @property
    def split(self) -> dict[str, Any]:
        """What every kind of source needs to know."""
        return {"task": self.task, "test_share": self.test_share, "keys": self.keys}


def _load(source: Source, root: Path, reading: Reading) -> Dataset:
    size = reading.size
    if isinstance(source, str) and source in DATASETS:
        data = DATASETS[source].read(root)
    elif isinstance(source, (str, Path)):
        data = _load_path(_existing(source), reading)
    elif isinstance(source, torch.utils.data.Dataset):
        data = read_torch_dataset(source, size=size, **reading.split)
    elif isinstance(source, DataLoader):
        if size is not None:
            raise InvalidInput(f"Expected no size with a DataLoader, which makes images of its own size. Got {size}.")
        data = read_loader(source, **reading.split)
    elif isinstance(source, tuple) and len(source) == 2:
        data = read_pair(*source, **reading.split)
    else:
        raise InvalidInput(
            f"Expected a name, a path, a pair (X, y), a torch data set or a DataLoader. Got {_name_of(source)}."
        )
    if reading.task is not None and data.kind != reading.task:
        raise InvalidInput(f"Expected data for the task {reading.task}. Got {data.name!r}, whose task is {data.kind}.")
    if size is None or (data.is_image and data.input_shape[1:] == (size, size)):
        return data
    return data.resized(size)


def _load_path(path: Path, reading: Reading) -> Dataset:
    target, size, test_share = reading.target, reading.size, reading.test_share
    if path.is_file() and path.suffix.lower() == ".npz":
        return read_npz(path, **reading.split)
    if path.is_dir() and is_huggingface_folder(path):
        return read_huggingface_folder(path, target=target, size=size, **reading.split)
    if path.is_file() and is_table_file(path):
        return read_table_file(path, target=target, **reading.split)
    if path.is_dir() and "train" in table_files(path):
        return read_table_folder(path, target=target, **reading.split)
    if path.is_dir():
        return read_image_folder(path, size=size, test_share=test_share)
    raise DataError(f"Expected a folder, or a file that ends in {', '.join(TABLE_SUFFIXES)} or .npz. Got {path}.")


def _existing(source: str | Path) -> Path:
    """The path itself, or that in the data folder."""
    path = Path(source).expanduser()
    require_text(path)
    for candidate in (path, data_root() / path):
        if candidate.exists():
            return candidate
    if isinstance(source, Path) or len(path.parts) > 1 or path.suffix:
        raise MissingData(
            f"Expected a file or folder at {path}, or a data set out of {', '.join(DATASETS)}. Found nothing there."
        )
    raise UnknownName("data set", source, [*DATASETS, "or the path of a file or folder that exists"])


def _may_have_columns(source: Source) -> bool:
    if not isinstance(source, (str, Path)) or source in DATASETS:
        return False
    path = Path(source).expanduser()
    return (
        not path.exists()
        or is_table_file(path)
        or (path.is_dir() and (is_huggingface_folder(path) or bool(table_files(path))))
    )


def _check_keys(source: Source, keys: SplitKeys) -> None:
    """Refuses to split data that have no columns by a column, and folders of images, whose order nobody sees."""
    is_path = isinstance(source, (str, Path))
    is_npz = is_path and Path(str(source)).suffix.lower() == ".npz"
    if keys.given and is_path and not is_npz and not _may_have_columns(source):
        raise InvalidInput(f"Expected a table or arrays to split by groups or times. Got {_name_of(source)}.")


def _name_of(source: object) -> str:
    return str(source) if isinstance(source, (str, Path)) else f"a {type(source).__name__}"


def _read_digits(root: Path) -> Dataset:
    """The test set is a fixed stratified fifth."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 16  # (N, 1, 8, 8)
    train, test = stratified_split(TensorData(images, torch.from_numpy(digits.target).long(), 10), 0.2, seed=0)
    return Dataset("digits", train, test, DIGIT_CLASSES)


def _read_spirals(root: Path) -> Dataset:
    return Dataset("spirals", spirals(200, seed=0), spirals(1800, seed=0, stream="test"), ("arm 0", "arm 1"))


@dataclass(frozen=True)
class NamedSource:
    """A data set that `load` knows by name."""

    what: str  # one line that describes it in lists
    read: Callable[[Path], Dataset]  # from the data folder
    folder: Callable[[Path], Path | None] | None = None  # finds its files in the data folder; None if it has none


def _idx(name: str, what: str, class_names: tuple[str, ...]) -> NamedSource:
    return NamedSource(
        f"{what}, 28x28 grey, 60,000 + 10,000",
        partial(read_idx_dataset, name=name, class_names=class_names),
        partial(idx_folder, name=name),
    )


def _cifar(kind: CifarFormat) -> NamedSource:
    what = f"{len(kind.class_names)} kinds of things, 32x32 colour, 50,000 + 10,000"
    return NamedSource(what, partial(read_cifar, kind=kind), partial(cifar_folder, kind=kind))


DATASETS: dict[str, NamedSource] = {
    "digits": NamedSource("handwritten digits, 8x8 grey, 1,438 + 359, embedded in scikit-learn", _read_digits),
    "spirals": NamedSource("points on two spirals, 2 numbers, 200 + 1,800, computed", _read_spirals),
    "mnist": _idx("mnist", "handwritten digits", DIGIT_CLASSES),
    "fashion_mnist": _idx("fashion_mnist", "pieces of clothing", FASHION_CLASSES),
    "kmnist": _idx("kmnist", "cursive Japanese letters", KUZUSHIJI_CLASSES),
    "cifar10": _cifar(CIFAR10),
    "cifar100": _cifar(CIFAR100),
    "svhn": NamedSource("digits of house numbers, 32x32 colour, 73,257 + 26,032", read_svhn, svhn_folder),
    "imagenet16_120": NamedSource(
        "120 kinds of things, 16x16 colour, 151,700 + 6,000", read_imagenet16, imagenet16_folder
    ),
}
