from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import savemat

from polyarch.data import load, resident
from polyarch.errors import CorruptFile, MissingData

IMAGES = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 6), dtype=np.uint8)
LABELS = np.array([[10], [1], [2], [9], [10], [3]], dtype=np.uint8)


def write(root: Path, **arrays: Any) -> Path:
    folder = root / "svhn"
    folder.mkdir()
    for name in ("train", "test"):
        savemat(folder / f"{name}_32x32.mat", {"X": IMAGES, "y": LABELS} | arrays, do_compression=True)
    return folder


def test_images_and_labels(tmp_path: Path) -> None:
    write(tmp_path)
    data = load("svhn", root=tmp_path)
    assert (data.input_shape, data.class_names) == ((3, 32, 32), tuple("0123456789"))
    assert data.train.targets.tolist() == [0, 1, 2, 9, 0, 3]
    assert torch.equal(resident(data.test).inputs[4], torch.from_numpy(IMAGES[..., 4].transpose(2, 0, 1).copy()))


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"X": IMAGES[..., 0]}, r"X of \S*train_32x32\.mat to be H x W x 3 x N bytes"),
        ({"X": IMAGES.astype(float)}, r"Found float64"),
        ({"y": LABELS[:4]}, r"6 labels in y of \S*train_32x32\.mat"),
        ({"y": np.array(["a"] * 6)}, r"6 labels in y of \S*train_32x32\.mat"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], complaint: str) -> None:
    write(tmp_path, **arrays)
    with pytest.raises(CorruptFile, match=complaint):
        load("svhn", root=tmp_path)


@pytest.mark.parametrize("keep", [0, 100, 200, -40])
def test_damaged_file(tmp_path: Path, keep: int) -> None:
    path = write(tmp_path) / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptFile, match=r"test_32x32\.mat"):
        load("svhn", root=tmp_path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"train_32x32\.mat in \S*svhn\. .*polyarch data download svhn"):
        load("svhn", root=tmp_path)
