"""CIFAR-10 and CIFAR-100 in their official formats, and CIFAR-10 as mosaics."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from polyarch.data.dataset import Dataset
from polyarch.data.locations import data_root, missing
from polyarch.data.pickles import read_plain_pickle
from polyarch.data.splits import AnyExamples
from polyarch.data.tensors import TensorData
from polyarch.errors import CorruptFile, DataError, MissingData, first_line

SIDE = 32
PIXELS = 3 * SIDE * SIDE

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
CIFAR100_CLASSES = tuple(f"fine label {label}" for label in range(100))


@dataclass(frozen=True)
class _Format:
    """The names that the binary and the python version of a set use."""

    name: str
    class_names: tuple[str, ...]  # where no file names them
    binary_folder: str
    python_folder: str
    train: tuple[str, ...]
    test: str
    label_bytes: int  # of a binary record; the last is the label
    names_text: str
    names_pickle: str
    names_key: str
    label_key: str


CIFAR10 = _Format(
    name="cifar10",
    class_names=CIFAR10_CLASSES,
    binary_folder="cifar-10-batches-bin",
    python_folder="cifar-10-batches-py",
    train=tuple(f"data_batch_{batch}" for batch in range(1, 6)),
    test="test_batch",
    label_bytes=1,
    names_text="batches.meta.txt",
    names_pickle="batches.meta",
    names_key="label_names",
    label_key="labels",
)
CIFAR100 = _Format(
    name="cifar100",
    class_names=CIFAR100_CLASSES,
    binary_folder="cifar-100-binary",
    python_folder="cifar-100-python",
    train=("train",),
    test="test",
    label_bytes=2,  # the coarse label, then the fine one
    names_text="fine_label_names.txt",
    names_pickle="meta",
    names_key="fine_label_names",
    label_key="fine_labels",
)
MOSAICS = (*(f"train_{part}.webp" for part in range(1, 6)), "test.webp", "labels.npz")


def read_cifar10(root: Path) -> Dataset:
    """CIFAR-10 from the binary files, the python files or the mosaics, whichever is there."""
    mosaics = _mosaic_folder(root)
    if mosaics and not _binary_folder(root, CIFAR10) and not _python_folder(root, CIFAR10):
        return _read_mosaics(mosaics)
    return _read_official(root, CIFAR10)


def read_cifar100(root: Path) -> Dataset:
    """CIFAR-100 with its 100 fine labels, from the binary files or the python files."""
    return _read_official(root, CIFAR100)


def cifar10_folder(root: Path) -> Path | None:
    """The folder of the files, if they are there."""
    return _binary_folder(root, CIFAR10) or _python_folder(root, CIFAR10) or _mosaic_folder(root)


def cifar100_folder(root: Path) -> Path | None:
    """The folder of the files, if they are there."""
    return _binary_folder(root, CIFAR100) or _python_folder(root, CIFAR100)


def _binary_folder(root: Path, kind: _Format) -> Path | None:
    return _holder(root, kind, kind.binary_folder, [f"{name}.bin" for name in (*kind.train, kind.test)])


def _python_folder(root: Path, kind: _Format) -> Path | None:
    return _holder(root, kind, kind.python_folder, [*kind.train, kind.test])


def _mosaic_folder(root: Path) -> Path | None:
    folder = root / "cifar10"
    return folder if all((folder / name).is_file() for name in MOSAICS) else None


def _holder(root: Path, kind: _Format, official: str, names: Sequence[str]) -> Path | None:
    for folder in (root / kind.name / official, root / kind.name, root / official):
        if all((folder / name).is_file() for name in names):
            return folder
    return None


def _read_official(root: Path, kind: _Format) -> Dataset:
    folder = _binary_folder(root, kind)
    if folder:
        read, suffix = read_binary, ".bin"
        class_names = _names_from_text(folder / kind.names_text)
    else:
        folder = _python_folder(root, kind)
        if folder is None:
            either = f"{kind.binary_folder}/{kind.train[0]}.bin, {kind.python_folder}/{kind.train[0]}"
            mosaics = f" or {MOSAICS[0]}" if kind is CIFAR10 else ""
            raise missing(kind.name, root / kind.name, f"{either}{mosaics} and its companions")
        read, suffix = read_python, ""
        class_names = _names_from_pickle(folder / kind.names_pickle, kind.names_key)
    class_names = class_names or kind.class_names
    if len(class_names) != len(kind.class_names):
        raise CorruptFile(f"Expected {len(kind.class_names)} names of classes in {folder}. Found {len(class_names)}.")

    def part(names: Sequence[str]) -> TensorData:
        batches = [read(folder / f"{name}{suffix}", kind) for name in names]
        images, labels = (torch.cat(tensors) for tensors in zip(*batches, strict=True))
        return TensorData(images, labels, len(class_names))

    return Dataset(kind.name, part(kind.train), part((kind.test,)), class_names)


def read_binary(path: Path, kind: _Format) -> tuple[Tensor, Tensor]:
    """Records of label bytes and 3072 pixels as (N, 3, 32, 32) uint8 and (N,) labels."""
    content = np.fromfile(path, np.uint8)
    record = kind.label_bytes + PIXELS
    if content.size == 0 or content.size % record:
        raise CorruptFile(f"Expected {path} to hold records of {record} bytes. Found {content.size} bytes.")
    records = torch.from_numpy(content).view(-1, record)
    images = records[:, kind.label_bytes :].reshape(-1, 3, SIDE, SIDE)
    return images, records[:, kind.label_bytes - 1].long()


def read_python(path: Path, kind: _Format) -> tuple[Tensor, Tensor]:
    """A pickled batch as (N, 3, 32, 32) uint8 and (N,) labels."""
    content = read_plain_pickle(path)
    data, labels = content.get("data"), content.get(kind.label_key)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != PIXELS:
        raise CorruptFile(f"Expected 'data' of {path} to be N x {PIXELS} bytes. Found another value.")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise CorruptFile(f"Expected {kind.label_key!r} of {path} to be a list of integers. Found another value.")
    return torch.from_numpy(data.copy()).view(-1, 3, SIDE, SIDE), torch.tensor(labels, dtype=torch.int64)


def _names_from_text(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(errors="replace").split()) if path.is_file() else ()


def _names_from_pickle(path: Path, key: str) -> tuple[str, ...]:
    if not path.is_file():
        return ()
    names = read_plain_pickle(path).get(key)
    if not isinstance(names, list):
        raise CorruptFile(f"Expected {key!r} of {path} to be a list of names. Found another value.")
    return tuple(map(str, names))


def _read_mosaics(folder: Path) -> Dataset:
    """Lossless WebP mosaics of 100x100 images and a file of labels."""
    labels = _read_rows(folder / "labels.npz", ("train", "test"))
    train = torch.cat([read_mosaic(folder / name) for name in MOSAICS[:5]])
    test = read_mosaic(folder / MOSAICS[5])
    return Dataset(
        "cifar10",
        TensorData(train, labels["train"], 10),
        TensorData(test, labels["test"], 10),
        CIFAR10_CLASSES,
    )


def read_mosaic(path: Path, *, size: int = SIDE) -> Tensor:
    """A mosaic of square images in row order as (N, 3, size, size) uint8."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
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
