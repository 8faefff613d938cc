"""MNIST and other sets in its idx format: a header followed by bytes.

LeCun et al. (1998), "Gradient-Based Learning Applied to Document Recognition"; Xiao et al. (2017), "Fashion-MNIST: a
Novel Image Dataset for Benchmarking Machine Learning Algorithms", arXiv:1708.07747; Clanuwat et al. (2018), "Deep
Learning for Classical Japanese Literature" (KMNIST), arXiv:1812.01718.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from polyarch.data.dataset import Dataset
from polyarch.data.examples import TensorData
from polyarch.data.locations import find, missing
from polyarch.errors import CorruptFile, DataError, first_line

DIGIT_CLASSES = tuple(map(str, range(10)))
FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
KUZUSHIJI_CLASSES = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")

MOST_DIMENSIONS = 8
"""Images have three; numpy takes up to 64, and a damaged byte may claim 255."""

IDX_FILES = tuple(
    f"{part}-{content}" for part in ("train", "t10k") for content in ("images-idx3-ubyte", "labels-idx1-ubyte")
)


def read_idx_dataset(root: Path, name: str, class_names: tuple[str, ...]) -> Dataset:
    """Reads the four official files in ``root/name``, each plain or gzipped."""

    def read(file: str) -> Tensor:
        path = find(root / name, file)
        if path is None:
            raise missing(name, root / name, f"{file} (or {file}.gz)")
        return read_idx(path)

    def part(prefix: str) -> TensorData:
        images, labels = read(f"{prefix}-images-idx3-ubyte"), read(f"{prefix}-labels-idx1-ubyte")
        if images.dim() != 3:
            raise DataError(f"Expected images as N x H x W in {name}. Got shape {tuple(images.shape)}.")
        return TensorData(images.unsqueeze(1), labels.long(), len(class_names))

    return Dataset(name, part("train"), part("t10k"), class_names)


def idx_folder(root: Path, name: str) -> Path | None:
    """The folder that holds all four files; None if some are missing."""
    return root / name if all(find(root / name, file) for file in IDX_FILES) else None


def read_idx(path: Path) -> Tensor:
    """Reads a file of unsigned bytes in idx format, plain or gzipped, as a uint8 tensor."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFile(f"Expected {path} to be a readable file. Found: {first_line(error)}.") from None
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise CorruptFile(f"Expected {path} to start like an idx file of bytes. Found {content[:4].hex()!r}.")
    dimensions = content[3]
    if dimensions > MOST_DIMENSIONS:
        raise CorruptFile(f"Expected {path} to have up to {MOST_DIMENSIONS} dimensions. Found {dimensions}.")
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise CorruptFile(f"Expected {path} to have an idx header of {header} bytes. Found {len(content)}.")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    values = np.frombuffer(content, np.uint8, offset=header)
    if values.size != math.prod(shape):
        raise CorruptFile(f"Expected {path} to hold {math.prod(shape)} values. Found {values.size}.")
    return torch.from_numpy(values.reshape(shape).copy())
