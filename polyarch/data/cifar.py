"""CIFAR-10 and CIFAR-100 in their official formats, CIFAR-10 as mosaics, and NAS-Bench-201's split of its training set.

The data: Krizhevsky (2009), "Learning Multiple Layers of Features from Tiny Images". The split: Dong & Yang (2020),
"NAS-Bench-201: Extending the Scope of Reproducible Neural Architecture Search", arXiv:2001.00326.
"""

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from polyarch.data.dataset import Dataset
from polyarch.data.examples import AnyExamples, TensorData
from polyarch.data.locations import data_root, missing
from polyarch.data.pickles import read_plain_pickle
from polyarch.errors import CorruptFile, DataError, MissingData, first_line

SIDE = 32
PIXELS = 3 * SIDE * SIDE

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


@dataclass(frozen=True)
class CifarFormat:
    """The file names and keys of one of the sets in its official binary and Python versions."""

    name: str
    class_names: tuple[str, ...]  # used if no file names the classes
    binary_folder: str
    python_folder: str
    train: tuple[str, ...]
    test: str
    label_bytes: int  # bytes before the pixels of a binary record; the last of them is the label
    names_text: str
    names_pickle: str
    key_prefix: str  # of the keys "label_names" and "labels" in pickles


CIFAR10 = CifarFormat(
    name="cifar10",
    class_names=CIFAR10_CLASSES,
    binary_folder="cifar-10-batches-bin",
    python_folder="cifar-10-batches-py",
    train=tuple(f"data_batch_{batch}" for batch in range(1, 6)),
    test="test_batch",
    label_bytes=1,
    names_text="batches.meta.txt",
    names_pickle="batches.meta",
    key_prefix="",
)
CIFAR100 = CifarFormat(
    name="cifar100",
    class_names=tuple(f"fine label {label}" for label in range(100)),
    binary_folder="cifar-100-binary",
    python_folder="cifar-100-python",
    train=("train",),
    test="test",
    label_bytes=2,  # the coarse label, then the fine one
    names_text="fine_label_names.txt",
    names_pickle="meta",
    key_prefix="fine_",
)
MOSAICS = (*(f"train_{part}.webp" for part in range(1, 6)), "test.webp", "labels.npz")


def read_cifar(root: Path, kind: CifarFormat) -> Dataset:
    """One of the sets from whichever files are present; CIFAR-100 with its 100 fine labels."""
    found = _official_files(root, kind)
    if found:
        return _read_official(*found, kind)
    mosaics = _mosaic_folder(root, kind)
    if mosaics:
        return _read_mosaics(mosaics)
    either = f"{kind.binary_folder}/{kind.train[0]}.bin, {kind.python_folder}/{kind.train[0]}"
    mosaic = f" or {MOSAICS[0]}" if kind is CIFAR10 else ""
    raise missing(kind.name, root / kind.name, f"{either}{mosaic} and its companions")


def cifar_folder(root: Path, kind: CifarFormat) -> Path | None:
    """The folder that holds all files of a set; None if some are missing."""
    found = _official_files(root, kind)
    return found[0] if found else _mosaic_folder(root, kind)


def _official_files(root: Path, kind: CifarFormat) -> tuple[Path, str] | None:
    """The folder of the binary or else the Python version, and the suffix of its files."""
    for official, suffix in ((kind.binary_folder, ".bin"), (kind.python_folder, "")):
        for folder in (root / kind.name / official, root / kind.name, root / official):
            if all((folder / f"{name}{suffix}").is_file() for name in (*kind.train, kind.test)):
                return folder, suffix
    return None


def _mosaic_folder(root: Path, kind: CifarFormat) -> Path | None:
    folder = root / kind.name
    return folder if kind is CIFAR10 and all((folder / name).is_file() for name in MOSAICS) else None


def _read_official(folder: Path, suffix: str, kind: CifarFormat) -> Dataset:
    read = read_binary if suffix else read_python
    class_names = (_names_from_text if suffix else _names_from_pickle)(folder, kind) or kind.class_names
    if len(class_names) != len(kind.class_names):
        raise CorruptFile(f"Expected {len(kind.class_names)} class names in {folder}. Found {len(class_names)}.")

    def part(names: Sequence[str]) -> TensorData:
        batches = [read(folder / f"{name}{suffix}", kind) for name in names]
        images, labels = (torch.cat(tensors) for tensors in zip(*batches, strict=True))
        return TensorData(images, labels, len(class_names))

    return Dataset(kind.name, part(kind.train), part((kind.test,)), class_names)


def read_binary(path: Path, kind: CifarFormat) -> tuple[Tensor, Tensor]:
    """Reads records of label bytes and 3072 pixels as (N, 3, 32, 32) uint8 and (N,) labels."""
    content = np.fromfile(path, np.uint8)
    record = kind.label_bytes + PIXELS
    if content.size == 0 or content.size % record:
        raise CorruptFile(f"Expected {path} to hold records of {record} bytes. Found {content.size} bytes.")
    records = torch.from_numpy(content).view(-1, record)
    images = records[:, kind.label_bytes :].reshape(-1, 3, SIDE, SIDE)
    return images, records[:, kind.label_bytes - 1].long()


def read_python(path: Path, kind: CifarFormat) -> tuple[Tensor, Tensor]:
    """Reads a pickled batch as (N, 3, 32, 32) uint8 and (N,) labels."""
    content, key = read_plain_pickle(path), f"{kind.key_prefix}labels"
    data, labels = content.get("data"), content.get(key)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != PIXELS:
        raise CorruptFile(f"Expected 'data' of {path} to be N x {PIXELS} bytes. Found another value.")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise CorruptFile(f"Expected {key!r} of {path} to be a list of integers. Found another value.")
    return torch.from_numpy(data.copy()).view(-1, 3, SIDE, SIDE), torch.tensor(labels, dtype=torch.int64)


def _names_from_text(folder: Path, kind: CifarFormat) -> tuple[str, ...]:
    path = folder / kind.names_text
    return tuple(path.read_text(errors="replace").split()) if path.is_file() else ()


def _names_from_pickle(folder: Path, kind: CifarFormat) -> tuple[str, ...]:
    path, key = folder / kind.names_pickle, f"{kind.key_prefix}label_names"
    names = read_plain_pickle(path).get(key) if path.is_file() else []
    if not isinstance(names, list):
        raise CorruptFile(f"Expected {key!r} of {path} to be a list of names. Found another value.")
    return tuple(map(str, names))


def _read_mosaics(folder: Path) -> Dataset:
    """Lossless WebP mosaics of 100x100 images and a file of labels."""
    labels = _read_rows(folder / "labels.npz", ("train", "test"))
    train = TensorData(torch.cat([read_mosaic(folder / name) for name in MOSAICS[:5]]), labels["train"], 10)
    test = TensorData(read_mosaic(folder / MOSAICS[5]), labels["test"], 10)
    return Dataset("cifar10", train, test, CIFAR10_CLASSES)


def read_mosaic(path: Path, *, size: int = SIDE) -> Tensor:
    """Cuts a mosaic of square images, row by row, into (N, 3, size, size) uint8."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path, formats=["WEBP"]) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise CorruptFile(f"Expected {path} to be a readable image. Found: {first_line(error)}.") from None
    height, width, _ = pixels.shape
    if height % size or width % size:
        raise CorruptFile(f"Expected {path} to be a mosaic of {size}x{size} images. Found {height}x{width} pixels.")
    tiles = pixels.reshape(height // size, size, width // size, size, 3).transpose(0, 2, 4, 1, 3)
    return torch.from_numpy(np.ascontiguousarray(tiles.reshape(-1, 3, size, size)))


def nb201_split(data: AnyExamples, *, root: Path | None = None) -> tuple[AnyExamples, AnyExamples]:
    """NAS-Bench-201's own 25,000 / 25,000 split of CIFAR-10's training set."""
    path = (root or data_root()) / "cifar10" / "nb201_train_valid_split.npz"
    if not path.is_file():
        raise MissingData(f"Expected {path.name} in {path.parent}. Found no such file.")
    split = _read_rows(path, ("train", "valid"))
    rows = torch.cat([split["train"], split["valid"]])
    if not torch.equal(rows.sort().values, torch.arange(len(data))):
        raise DataError(f"Expected a split of {len(data)} examples without repeats in {path}. Found {len(rows)}.")
    return data.subset(split["train"]), data.subset(split["valid"])


def _read_rows(path: Path, names: tuple[str, ...]) -> dict[str, Tensor]:
    """Arrays of integers by name, as int64."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name].astype(np.int64)) for name in names}
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise CorruptFile(f"Expected {path} to hold arrays {', '.join(names)}. Found: {first_line(error)}.") from None
