from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from polyarch.data import Dataset, load, nb201_split, resident
from polyarch.data.cifar import read_mosaic
from polyarch.errors import CorruptFile, DataError
from polyarch.randomness import generator_at


@cache
def loaded(name: str, root: Path) -> Dataset:
    return load(name, root=root)


def random_bytes(*shape: int) -> Tensor:
    return torch.randint(256, shape, generator=generator_at(0, "pixels"), dtype=torch.uint8)


class TestMosaic:
    def save(self, path: Path, tiles: Tensor, rows: int, columns: int) -> Path:
        """Writes tiles (N, 3, s, s) in row order, by plain loops."""
        size = tiles.shape[-1]
        canvas = np.zeros((rows * size, columns * size, 3), np.uint8)
        for index, tile in enumerate(tiles):
            top, left = index // columns * size, index % columns * size
            canvas[top : top + size, left : left + size] = tile.permute(1, 2, 0).numpy()
        Image.fromarray(canvas).save(path, lossless=True)
        return path

    def test_tiles_come_back_in_row_order(self, tmp_path: Path) -> None:
        tiles = random_bytes(6, 3, 8, 8)
        path = self.save(tmp_path / "mosaic.webp", tiles, rows=2, columns=3)
        assert torch.equal(read_mosaic(path, size=8), tiles)

    def test_size_that_does_not_divide(self, tmp_path: Path) -> None:
        path = self.save(tmp_path / "mosaic.webp", random_bytes(6, 3, 8, 8), rows=2, columns=3)
        with pytest.raises(CorruptFile, match=r"mosaic\.webp to be a mosaic of 32x32 images. Found 16x24"):
            read_mosaic(path)

    @pytest.mark.parametrize("keep", [0, 20, 200])
    def test_truncated_image(self, tmp_path: Path, keep: int) -> None:
        path = self.save(tmp_path / "mosaic.webp", random_bytes(4, 3, 8, 8), rows=2, columns=2)
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(CorruptFile, match=r"mosaic\.webp"):
            read_mosaic(path, size=8)

    def small_cifar10(self, root: Path) -> Path:
        folder = root / "cifar10"
        folder.mkdir()
        for name in (*(f"train_{part}" for part in range(1, 6)), "test"):
            self.save(folder / f"{name}.webp", random_bytes(2, 3, 32, 32), rows=1, columns=2)
        np.savez(folder / "labels.npz", train=np.arange(10), test=np.array([3, 4]))
        return folder

    def test_cifar10_from_made_files(self, tmp_path: Path) -> None:
        self.small_cifar10(tmp_path)
        cifar10 = load("cifar10", root=tmp_path)
        assert cifar10.train.targets.tolist() == list(range(10))
        assert cifar10.input_shape == (3, 32, 32)
        assert torch.equal(resident(cifar10.train).inputs[8:], random_bytes(2, 3, 32, 32))

    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param(lambda path: path.write_bytes(path.read_bytes()[:40]), id="truncated"),
            pytest.param(lambda path: path.write_bytes(b""), id="empty"),
            pytest.param(lambda path: np.savez(path, train=np.arange(10)), id="array missing"),
            pytest.param(lambda path: np.savez(path, train=np.array([{}]), test=np.array([1])), id="pickled"),
        ],
    )
    def test_damaged_labels(self, tmp_path: Path, damage: Callable[[Path], object]) -> None:
        damage(self.small_cifar10(tmp_path) / "labels.npz")
        with pytest.raises(CorruptFile, match=r"labels\.npz to hold arrays train, test"):
            load("cifar10", root=tmp_path)

    @pytest.mark.parametrize(
        "valid",
        [
            pytest.param([5, 6, 7, 8], id="too few"),
            pytest.param([4, 6, 7, 8, 9], id="repeated"),
            pytest.param([5, 6, 7, 8, 10], id="out of range"),
        ],
    )
    def test_split_that_does_not_fit(self, tmp_path: Path, valid: list[int]) -> None:
        folder = self.small_cifar10(tmp_path)
        np.savez(folder / "nb201_train_valid_split.npz", train=np.arange(5), valid=np.array(valid))
        with pytest.raises(DataError, match=r"split of 10 examples without repeats in .*nb201_train_valid_split\.npz"):
            nb201_split(load("cifar10", root=tmp_path).train, root=tmp_path)


class TestRealFiles:
    @pytest.mark.parametrize(
        ("batch", "official"),
        [
            (0, "5dd7e06a14cb22eb9f671a540d1b7c25"),
            (1, "5ea93a67294ea407fff1d09f752e9692"),
            (2, "942cd6a4bcdd0dd3c604fbe906cb4421"),
            (3, "ae636b3ba5c66a11e91e8cb52e771fcb"),
            (4, "53f37980c15c3d472c316c40844f3f0d"),
            ("test", "803d5f7f4d78ea53de84dbe85f74fb6d"),
        ],
    )
    def test_cifar10_equals_the_official_binary_files(self, data_root: Path, batch: int | str, official: str) -> None:
        dataset = loaded("cifar10", data_root)
        part, start = (dataset.test, 0) if isinstance(batch, str) else (dataset.train, 10000 * batch)
        data, rows = resident(part), slice(start, start + 10000)
        labels = data.targets[rows].to(torch.uint8).unsqueeze(1)
        records = torch.cat([labels, data.inputs[rows].flatten(1)], 1)  # label byte, then the planes of C, H, W
        digest = hashlib.md5(records.numpy().tobytes(), usedforsecurity=False).hexdigest()
        assert digest == official

    def test_nb201_split_is_two_disjoint_halves(self, data_root: Path) -> None:
        data = resident(loaded("cifar10", data_root).train)
        train, valid = nb201_split(data, root=data_root)
        assert (len(train), len(valid)) == (25000, 25000)
        with np.load(data_root / "cifar10" / "nb201_train_valid_split.npz") as rows:
            assert not set(rows["train"].tolist()) & set(rows["valid"].tolist())
            assert torch.equal(train.inputs, data.inputs[torch.from_numpy(rows["train"].astype(np.int64))])
