"""Data sets by name: embedded ones, and files under the data folder in their official formats."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from polyarch.data.preprocessing import Normalisation, Preprocessing
from polyarch.data.spirals import spirals
from polyarch.data.splits import stratified_split
from polyarch.data.tensors import TensorData
from polyarch.errors import CorruptFile, DataError, MissingData, UnknownName


@dataclass(frozen=True)
class Dataset:
    """A data set as it is published: training and test examples, and the names of its classes."""

    name: str
    train: TensorData
    test: TensorData
    class_names: tuple[str, ...]

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.train.input_shape

    @property
    def is_image(self) -> bool:
        """Whether examples are images (C, H, W)."""
        return len(self.input_shape) == 3

    def preprocessing(self, train: TensorData) -> Preprocessing:
        """Fitted on this part of the training data."""
        return Normalisation.of(train)

    def resized(self, size: int) -> Dataset:
        """The same images at size x size, each pixel the mean of the area it covers."""
        if not self.is_image:
            raise DataError(f"Expected images to resize. Got examples of shape {self.input_shape}.")
        train, test = (
            TensorData(resize(part.inputs, size), part.targets, part.classes) for part in (self.train, self.test)
        )
        return Dataset(self.name, train, test, self.class_names)


def resize(images: Tensor, size: int) -> Tensor:
    """(N, C, H, W) -> (N, C, size, size) of the same type, in pieces so that bytes stay bytes in memory."""
    pieces = []
    for piece in images.split(4096):
        resized = F.interpolate(piece.float(), size=(size, size), mode="area")
        pieces.append(resized if images.is_floating_point() else resized.round().to(images.dtype))
    return torch.cat(pieces)


def data_root() -> Path:
    """``POLYARCH_DATA``, or the user's cache folder."""
    named = os.environ.get("POLYARCH_DATA")
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "polyarch"


def load(name: str, *, root: Path | None = None) -> Dataset:
    """The data set of that name.

    Args:
        name: one of ``DATASETS``.
        root: the folder that holds file-based sets, one folder each; ``data_root()`` by default.
    """
    if name not in DATASETS:
        raise UnknownName("data set", name, DATASETS)
    return DATASETS[name](root or data_root())


def _digits(root: Path) -> Dataset:
    """1,797 digits of 8x8 pixels (embedded in scikit-learn); a fixed stratified fifth is the test set."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 16  # (N, 1, 8, 8)
    train, test = stratified_split(TensorData(images, torch.from_numpy(digits.target).long(), 10), 0.2, seed=0)
    return Dataset("digits", train, test, tuple(map(str, range(10))))


def _spirals(root: Path) -> Dataset:
    """200 training and 1,800 test points of the two spirals, seed 0."""
    return Dataset("spirals", spirals(200, seed=0), spirals(1800, seed=0, stream="test"), ("arm 0", "arm 1"))


FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


def _idx_dataset(name: str, class_names: tuple[str, ...]) -> Callable[[Path], Dataset]:
    def load_idx(root: Path) -> Dataset:
        def part(prefix: str) -> TensorData:
            images = read_idx(_find(root / name, f"{prefix}-images-idx3-ubyte"))
            labels = read_idx(_find(root / name, f"{prefix}-labels-idx1-ubyte"))
            if images.dim() != 3:
                raise DataError(f"Expected images as N x H x W in {name}. Got shape {tuple(images.shape)}.")
            return TensorData(images.unsqueeze(1), labels.long(), len(class_names))

        return Dataset(name, part("train"), part("t10k"), class_names)

    return load_idx


def read_idx(path: Path) -> Tensor:
    """A file of unsigned bytes in idx format, plain or gzipped, as a uint8 tensor."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFile(f"Expected {path} to be a readable file. Found: {error}.") from None
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise CorruptFile(f"Expected {path} to start like an idx file of bytes. Found {content[:4].hex()!r}.")
    dimensions = content[3]
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise CorruptFile(f"Expected {path} to have an idx header of {header} bytes. Found {len(content)}.")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    values = np.frombuffer(content, np.uint8, offset=header)
    if values.size != math.prod(shape):
        raise CorruptFile(f"Expected {path} to hold {math.prod(shape)} values. Found {values.size}.")
    return torch.from_numpy(values.reshape(shape).copy())


def _cifar10(root: Path) -> Dataset:
    """CIFAR-10 from lossless WebP mosaics of 100x100 images and a file of labels."""
    folder = root / "cifar10"
    labels = _read_npz(_find(folder, "labels.npz"), ("train", "test"))
    train = torch.cat([read_mosaic(_find(folder, f"train_{i}.webp")) for i in range(1, 6)])
    test = read_mosaic(_find(folder, "test.webp"))
    return Dataset(
        "cifar10",
        TensorData(train, labels["train"].long(), 10),
        TensorData(test, labels["test"].long(), 10),
        CIFAR10_CLASSES,
    )


def read_mosaic(path: Path, *, size: int = 32) -> Tensor:
    """A mosaic of square images in row order as (N, 3, size, size) uint8."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise CorruptFile(f"Expected {path} to be a readable image. Found: {error}.") from None
    height, width, _ = pixels.shape
    if height % size or width % size:
        raise CorruptFile(f"Expected {path} to be a mosaic of {size}x{size} images. Found {height}x{width} pixels.")
    tiles = pixels.reshape(height // size, size, width // size, size, 3).transpose(0, 2, 4, 1, 3)
    return torch.from_numpy(np.ascontiguousarray(tiles.reshape(-1, 3, size, size)))


def nb201_split(data: TensorData, *, root: Path | None = None) -> tuple[TensorData, TensorData]:
    """NAS-Bench-201's own 25,000 / 25,000 split of CIFAR-10's training set."""
    path = _find((root or data_root()) / "cifar10", "nb201_train_valid_split.npz")
    split = _read_npz(path, ("train", "valid"))
    rows = torch.cat([split["train"], split["valid"]]).long()
    if not torch.equal(rows.sort().values, torch.arange(len(data))):
        raise DataError(f"Expected a split of {len(data)} examples without repeats in {path}. Found {len(rows)}.")
    return data.subset(split["train"].long()), data.subset(split["valid"].long())


def _read_npz(path: Path, names: tuple[str, ...]) -> dict[str, Tensor]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name].astype(np.int64)) for name in names}
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise CorruptFile(f"Expected {path} to hold arrays {', '.join(names)}. Found: {error}.") from None


def _find(folder: Path, name: str) -> Path:
    """The file, plain or gzipped."""
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise MissingData(
        f"Expected {name} (or {name}.gz) in {folder}. Found no such file; POLYARCH_DATA names the data folder."
    )


DATASETS: dict[str, Callable[[Path], Dataset]] = {
    "digits": _digits,
    "spirals": _spirals,
    "mnist": _idx_dataset("mnist", tuple(map(str, range(10)))),
    "fashion_mnist": _idx_dataset("fashion_mnist", FASHION_CLASSES),
    "cifar10": _cifar10,
}
