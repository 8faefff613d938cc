"""SVHN: cropped digits of house numbers, in Matlab files.

Netzer et al. (2011), "Reading Digits in Natural Images with Unsupervised Feature Learning".
"""

from pathlib import Path

import numpy as np
import torch

from polyarch.data.dataset import Dataset
from polyarch.data.examples import TensorData
from polyarch.data.idx import DIGIT_CLASSES
from polyarch.data.locations import missing
from polyarch.data.matlab import read_matlab
from polyarch.errors import CorruptFile

FILES = ("train_32x32.mat", "test_32x32.mat")


def read_svhn(root: Path) -> Dataset:
    """Reads the official training and test file of cropped digits, 32x32 pixels."""
    folder = root / "svhn"
    for name in FILES:
        if not (folder / name).is_file():
            raise missing("svhn", folder, name)
    train, test = (read_digits(folder / name) for name in FILES)
    return Dataset("svhn", train, test, DIGIT_CLASSES)


def svhn_folder(root: Path) -> Path | None:
    """The folder that holds both files; None if one is missing."""
    return root / "svhn" if all((root / "svhn" / name).is_file() for name in FILES) else None


def read_digits(path: Path) -> TensorData:
    """Reads X (H, W, 3, N) and y (N, 1) of a file, in which label 10 is the digit 0."""
    content = read_matlab(path)
    images, labels = (np.asarray(content.get(name)) for name in ("X", "y"))
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2] != 3:
        raise CorruptFile(f"Expected X of {path} to be H x W x 3 x N bytes. Found {images.dtype}, {images.shape}.")
    if labels.size != images.shape[3] or labels.dtype.kind not in "iuf":
        raise CorruptFile(f"Expected {images.shape[3]} labels in y of {path}. Found {labels.dtype}, {labels.shape}.")
    targets = torch.from_numpy(labels.astype(np.int64).reshape(-1))
    inputs = torch.from_numpy(np.ascontiguousarray(images.transpose(3, 2, 0, 1)))
    return TensorData(inputs, torch.where(targets == 10, 0, targets), 10)
