"""ImageNet16-120: the first 120 classes of ImageNet at 16x16 pixels, which NAS-Bench-201 uses, from official files.

The images: Chrabaszcz, Loshchilov and Hutter (2017), "A Downsampled Variant of ImageNet as an Alternative to the CIFAR
datasets", arXiv:1707.08819. The classes: Dong and Yang (2020), arXiv:2001.00326.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyarch.data.dataset import Dataset
from polyarch.data.examples import TensorData
from polyarch.data.pickles import read_plain_pickle
from polyarch.errors import CorruptFile, MissingData, first_line

NAME = "imagenet16_120"
SIDE = 16
PIXELS = 3 * SIDE * SIDE
CLASSES = 120
TRAIN = tuple(f"train_data_batch_{batch}" for batch in range(1, 11))
TEST = "val_data"
SUFFIXES = (".npz", "")
"""The official files are archives of arrays or pickles of the same names."""


def read_imagenet16(root: Path) -> Dataset:
    """151,700 training and 6,000 test images; the validation images of ImageNet are what is tested on.

    NAS-Bench-201 validates on one half of the latter and tests on the other (``x-valid`` and ``x-test``); its
    ``ori-test`` is all of them, as here.
    """
    found = _files(root)
    if found is None:
        raise MissingData(
            f"Expected {TRAIN[0]}.npz or {TRAIN[0]} and its companions up to {TEST} in {root / NAME}. Found not all of "
            "them; POLYARCH_DATA names the data folder, and image-net.org has the files for those who register "
            "(downsampled ImageNet, 16x16)."
        )
    folder, suffix = found

    def part(names: Sequence[str]) -> TensorData:
        batches = [read_batch(folder / f"{name}{suffix}") for name in names]
        images, labels = (torch.cat(tensors) for tensors in zip(*batches, strict=True))
        return TensorData(images, labels, CLASSES)

    return Dataset(NAME, part(TRAIN), part((TEST,)), tuple(f"class {label}" for label in range(1, CLASSES + 1)))


def imagenet16_folder(root: Path) -> Path | None:
    """The folder that holds all files; None if some are missing."""
    found = _files(root)
    return found[0] if found else None


def _files(root: Path) -> tuple[Path, str] | None:
    folder = root / NAME
    for suffix in SUFFIXES:
        if all((folder / f"{name}{suffix}").is_file() for name in (*TRAIN, TEST)):
            return folder, suffix
    return None


def read_batch(path: Path) -> tuple[Tensor, Tensor]:
    """The images (N, 3, 16, 16) of a file, uint8, and their labels (N,), of the first 120 classes only.

    A file has ``data``, N x 768 bytes, and ``labels`` from 1 to 1000, which become 0 to 119 here.
    """
    content = _arrays(path) if path.suffix == ".npz" else read_plain_pickle(path)
    data, labels = np.asarray(content.get("data")), np.asarray(content.get("labels"))
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != PIXELS:
        raise CorruptFile(f"Expected 'data' of {path} to be N x {PIXELS} bytes. Found {data.dtype}, {data.shape}.")
    if labels.shape != (len(data),) or labels.dtype.kind not in "iu" or labels.min(initial=1) < 1:
        raise CorruptFile(
            f"Expected 'labels' of {path} to be {len(data)} whole numbers from 1 on. Found {labels.dtype}, "
            f"{labels.shape}."
        )
    kept = np.flatnonzero(labels <= CLASSES)
    images = torch.from_numpy(data[kept]).view(-1, 3, SIDE, SIDE)
    return images, torch.from_numpy(labels[kept].astype(np.int64) - 1)


def _arrays(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in ("data", "labels") if name in arrays}
    except Exception as error:  # damaged bytes make zip and numpy raise all kinds of errors
        raise CorruptFile(f"Expected {path} to hold arrays data and labels. Found: {first_line(error)}.") from None
