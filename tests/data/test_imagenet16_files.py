"""ImageNet16-120: small files of the official form, as pickles and as arrays."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polyarch.data import load, resident
from polyarch.data.imagenet16 import TEST, TRAIN
from polyarch.errors import CorruptFile, MissingData

LABELS = [1, 120, 121, 1000]
"""Of every file; the last two are of classes that are left out."""
PIXELS = np.random.default_rng(0).integers(0, 256, (11, len(LABELS), 768), dtype=np.uint8)


def write(root: Path, suffix: str, **changed: Any) -> Path:
    """Eleven files of four images; those of training also have a mean image."""
    folder = root / "imagenet16_120"
    folder.mkdir()
    for name, data in zip((*TRAIN, TEST), PIXELS, strict=True):
        mean = {} if name == TEST else {"mean": data.mean(0)}
        content = {"data": data, "labels": LABELS, **mean, **changed}
        if suffix == ".npz":
            np.savez(folder / f"{name}.npz", **content)
        else:
            (folder / name).write_bytes(pickle.dumps(content, protocol=2))
    return folder


@pytest.mark.parametrize("suffix", ["", ".npz"])
def test_images_of_the_first_classes(tmp_path: Path, suffix: str) -> None:
    write(tmp_path, suffix)
    data = load("imagenet16_120", root=tmp_path)
    assert (data.input_shape, data.classes, len(data.train), len(data.test)) == ((3, 16, 16), 120, 20, 2)
    assert data.train.targets.tolist() == [0, 119] * 10 and data.test.targets.tolist() == [0, 119]
    assert torch.equal(resident(data.train).inputs[3], torch.from_numpy(PIXELS[1, 1].reshape(3, 16, 16)))
    assert torch.equal(resident(data.test).inputs[0], torch.from_numpy(PIXELS[10, 0].reshape(3, 16, 16)))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"data": PIXELS[0, :, :700]}, r"'data' of \S*train_data_batch_1\S* to be N x 768 bytes\. Found uint8"),
        ({"data": PIXELS[0].astype(float)}, "Found float64"),
        ({"labels": LABELS[:3]}, r"'labels' of \S*train_data_batch_1\S* to be 4 whole numbers"),
        ({"labels": [0, 1, 2, 3]}, "4 whole numbers from 1 on"),
        ({"labels": [1.0, 2.0, 3.0, 4.0]}, "Found float64"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".npz"])
def test_content_that_does_not_fit(tmp_path: Path, suffix: str, changed: dict[str, Any], complaint: str) -> None:
    write(tmp_path, suffix, **changed)
    with pytest.raises(CorruptFile, match=complaint):
        load("imagenet16_120", root=tmp_path)


@pytest.mark.parametrize("suffix", ["", ".npz"])
@pytest.mark.parametrize("keep", [0, 60, -40])
def test_damaged_file(tmp_path: Path, suffix: str, keep: int) -> None:
    path = write(tmp_path, suffix) / f"val_data{suffix}"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptFile, match="val_data"):
        load("imagenet16_120", root=tmp_path)


class Attack:
    """Calls a function of its choice when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Path.touch, (self.mark,)


def test_nothing_is_run(tmp_path: Path) -> None:
    folder, mark = write(tmp_path, ""), tmp_path / "mark"
    (folder / TEST).write_bytes(pickle.dumps({"data": Attack(mark), "labels": LABELS}))
    with pytest.raises(CorruptFile, match=r"val_data to hold plain values only\. Found \w+"):
        load("imagenet16_120", root=tmp_path)
    np.savez(folder / "val_data.npz", data=np.array([Attack(mark)], dtype=object), labels=LABELS)
    for name in TRAIN:
        np.savez(folder / f"{name}.npz", data=PIXELS[0], labels=LABELS)
    with pytest.raises(CorruptFile, match=r"val_data\.npz"):
        load("imagenet16_120", root=tmp_path)
    assert not mark.exists()


def test_one_file_is_missing(tmp_path: Path) -> None:
    (write(tmp_path, "") / "train_data_batch_7").unlink()
    with pytest.raises(MissingData, match=r"train_data_batch_1 .* in \S*imagenet16_120\. .*image-net\.org"):
        load("imagenet16_120", root=tmp_path)
