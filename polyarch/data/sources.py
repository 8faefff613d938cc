"""`load`: a data set from its name, a file, a folder, arrays or a torch data set.

The digits: Alpaydin & Kaynak (1998), "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from polyarch.data.arrays import read_npz, read_pair
from polyarch.data.cifar import CIFAR10, CIFAR100, CifarFormat, cifar_folder, read_cifar
from polyarch.data.dataset import Dataset
from polyarch.data.examples import TensorData, stratified_split
from polyarch.data.huggingface import is_huggingface_folder, read_huggingface_folder
from polyarch.data.idx import DIGIT_CLASSES, FASHION_CLASSES, KUZUSHIJI_CLASSES, idx_folder, read_idx_dataset
from polyarch.data.image_folders import read_image_folder
from polyarch.data.locations import data_root
from polyarch.data.spirals import spirals
from polyarch.data.svhn import read_svhn, svhn_folder
from polyarch.data.table_files import TABLE_SUFFIXES, is_table_file, read_table_file, read_table_folder, table_files
from polyarch.data.torch_datasets import read_torch_dataset
from polyarch.errors import DataError, InvalidInput, MissingData, UnknownName

Source = str | Path | torch.utils.data.Dataset[Any] | tuple[ArrayLike | Tensor | Mapping[str, Any], ArrayLike | Tensor]


def load(
    source: Source,
    *,
    root: Path | None = None,
    target: str | None = None,
    size: int | None = None,
    test_share: float = 0.2,
) -> Dataset:
    """Loads a data set, split into training and test examples.

    Args:
        source: one of ``DATASETS``; a table (.csv, .csv.gz, .parquet), a file of arrays (.npz), a folder of images,
            of train.csv and test.csv or of a Hugging Face data set; a pair of arrays (X, y), in which X may be a
            mapping of names to several inputs; a torch data set.
        root: the folder that holds a subfolder for each named set; ``data_root()`` by default.
        target: the label column of a table.
        size: the side of images in pixels.
        test_share: the share of every class to test on if the source has no test examples.
    """
    if target is not None and not _may_have_columns(source):
        raise InvalidInput(f"Expected a table for target {target!r}. Got {_name_of(source)}.")
    if isinstance(source, str) and source in DATASETS:
        data = DATASETS[source].read(root or data_root())
    elif isinstance(source, (str, Path)):
        data = _load_path(_existing(source), target, size, test_share)
    elif isinstance(source, torch.utils.data.Dataset):
        data = read_torch_dataset(source, size=size, test_share=test_share)
    elif isinstance(source, tuple) and len(source) == 2:
        data = read_pair(*source, test_share=test_share)
    else:
        raise InvalidInput(f"Expected a name, a path, a pair (X, y) or a torch data set. Got {_name_of(source)}.")
    if size is None or (data.is_image and data.input_shape[1:] == (size, size)):
        return data
    return data.resized(size)


def _load_path(path: Path, target: str | None, size: int | None, test_share: float) -> Dataset:
    if path.is_file() and path.suffix.lower() == ".npz":
        return read_npz(path, test_share=test_share)
    if path.is_dir() and is_huggingface_folder(path):
        return read_huggingface_folder(path, target=target, size=size, test_share=test_share)
    if path.is_file() and is_table_file(path):
        return read_table_file(path, target=target, test_share=test_share)
    if path.is_dir() and "train" in table_files(path):
        return read_table_folder(path, target=target, test_share=test_share)
    if path.is_dir():
        return read_image_folder(path, size=size, test_share=test_share)
    raise DataError(f"Expected a folder, or a file that ends in {', '.join(TABLE_SUFFIXES)} or .npz. Got {path}.")


def _existing(source: str | Path) -> Path:
    path = Path(source).expanduser()
    if path.exists():
        return path
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
}
