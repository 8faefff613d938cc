from __future__ import annotations

import gzip
import hashlib
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from polyarch.data import Dataset, load, nb201_split, resident
from polyarch.data import data_root as default_data_root
from polyarch.data.cifar import read_mosaic
from polyarch.data.dataset import resize
from polyarch.data.idx import read_idx
from polyarch.errors import CorruptFile, DataError, MissingData, UnknownName
from polyarch.randomness import generator_at


@cache
def loaded(name: str, root: Path) -> Dataset:
    return load(name, root=root)


def idx(shape: tuple[int, ...], values: bytes, *, magic: bytes = b"\x00\x00\x08") -> bytes:
    return magic + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + values


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def random_bytes(*shape: int) -> Tensor:
    return torch.randint(256, shape, generator=generator_at(0, "pixels"), dtype=torch.uint8)


class TestEmbedded:
    @pytest.mark.parametrize(
        ("name", "train", "test", "shape", "classes"),
        [("digits", 1438, 359, (1, 8, 8), 10), ("spirals", 200, 1800, (2,), 2)],
    )
    def test_sizes_and_shapes(self, name: str, train: int, test: int, shape: tuple[int, ...], classes: int) -> None:
        dataset = load(name)
        assert (dataset.name, len(dataset.train), len(dataset.test)) == (name, train, test)
        assert (dataset.input_shape, dataset.classes) == (shape, classes)
        assert dataset.is_image == (len(shape) == 3)
        assert resident(dataset.train).inputs.dtype == torch.float32

    @pytest.mark.parametrize("name", ["digits", "spirals"])
    def test_every_load_gives_the_same_bits(self, name: str) -> None:
        first, second = load(name), load(name)
        for part in ("train", "test"):
            one, other = getattr(first, part), getattr(second, part)
            assert torch.equal(one.inputs, other.inputs)
            assert torch.equal(one.targets, other.targets)

    def test_training_and_test_examples_differ(self) -> None:
        spirals = load("spirals")
        assert not torch.equal(resident(spirals.train).inputs, resident(spirals.test).inputs[: len(spirals.train)])

    def test_digits_are_scaled_to_one_and_all_classes_are_on_both_sides(self) -> None:
        digits = load("digits")
        assert torch.stack(resident(digits.train).inputs.aminmax()).tolist() == [0, 1]
        for part in (digits.train, digits.test):
            assert part.targets.unique().tolist() == list(range(10))


class TestResized:
    def test_every_pixel_is_the_mean_of_its_area(self) -> None:
        images = random_bytes(5, 3, 8, 8)
        means = images.double().view(5, 3, 4, 2, 4, 2).mean((3, 5))
        assert torch.equal(resize(images, 4), means.round().to(torch.uint8))
        torch.testing.assert_close(resize(images.double(), 4), means.float(), check_dtype=False)

    def test_whole_data_set(self) -> None:
        digits = load("digits").resized(4)
        assert digits.input_shape == (1, 4, 4)
        assert (len(digits.train), len(digits.test)) == (1438, 359)
        assert torch.equal(digits.test.targets, load("digits").test.targets)

    def test_only_images_have_a_size(self) -> None:
        with pytest.raises(DataError, match=r"images to resize. Got examples of shape \(2,\)"):
            load("spirals").resized(4)


class TestNames:
    def test_unknown_name_gets_a_hint(self) -> None:
        with pytest.raises(UnknownName, match=r"cifar10.*Got 'cifar_10'\. Did you mean 'cifar10'\?"):
            load("cifar_10")

    def test_missing_files_are_named_with_the_way_out(self, tmp_path: Path) -> None:
        with pytest.raises(MissingData, match=r"train-images-idx3-ubyte.*POLYARCH_DATA") as caught:
            load("mnist", root=tmp_path)
        assert str(tmp_path / "mnist") in str(caught.value)

    def test_data_folder_comes_from_the_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("POLYARCH_DATA", str(tmp_path / "named"))
        assert default_data_root() == tmp_path / "named"
        monkeypatch.delenv("POLYARCH_DATA")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        assert default_data_root() == tmp_path / "cache" / "polyarch"


class TestIdx:
    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_plain_and_gzipped_files_hold_the_same(self, tmp_path: Path, suffix: str) -> None:
        images = random_bytes(5, 4, 3)
        path = write(tmp_path / f"images{suffix}", idx((5, 4, 3), images.numpy().tobytes()))
        assert torch.equal(read_idx(path), images)

    @pytest.mark.parametrize(
        ("name", "content", "complaint"),
        [
            ("magic", idx((2,), b"ab", magic=b"\x00\x00\x0d"), "start like an idx file"),
            ("empty", b"", "start like an idx file"),
            ("header", b"\x00\x00\x08\x03\x00\x00", "header of 16 bytes. Found 6"),
            ("short", idx((3, 2), b"abcde"), "hold 6 values. Found 5"),
            ("long", idx((3, 2), b"abcdefg"), "hold 6 values. Found 7"),
            ("overflow", idx((2**31, 2**31, 4), b""), "hold 18446744073709551616 values. Found 0"),
        ],
    )
    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_damage_names_the_file(
        self, tmp_path: Path, name: str, content: bytes, complaint: str, suffix: str
    ) -> None:
        path = write(tmp_path / f"{name}{suffix}", content)
        with pytest.raises(CorruptFile, match=complaint) as caught:
            read_idx(path)
        assert str(path) in str(caught.value)

    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param(lambda packed: packed[:-12], id="truncated"),
            pytest.param(lambda packed: b"not gzip at all", id="no gzip"),
            pytest.param(lambda packed: packed[:12] + b"\xff" * 8 + packed[20:], id="bad stream"),
            pytest.param(lambda packed: packed[:-8] + b"\x00" * 8, id="bad checksum"),
        ],
    )
    def test_damaged_gzip_names_the_file(self, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
        path = tmp_path / "images.gz"
        path.write_bytes(damage(gzip.compress(idx((500,), random_bytes(500).numpy().tobytes()))))
        with pytest.raises(CorruptFile, match=r"images\.gz"):
            read_idx(path)

    def test_data_set_from_made_files(self, tmp_path: Path) -> None:
        images, labels = random_bytes(6, 28, 28), bytes([0, 1, 2, 3, 4, 9])
        for part in ("train", "t10k"):
            write(tmp_path / f"mnist/{part}-images-idx3-ubyte.gz", idx((6, 28, 28), images.numpy().tobytes()))
            write(tmp_path / f"mnist/{part}-labels-idx1-ubyte", idx((6,), labels))
        mnist = load("mnist", root=tmp_path)
        assert torch.equal(resident(mnist.train).inputs, images.unsqueeze(1))
        assert mnist.test.targets.tolist() == list(labels)

    @pytest.mark.parametrize(
        ("images", "labels", "complaint"),
        [((6, 784), 6, "N x H x W"), ((6, 28, 28), 5, "one label per example")],
    )
    def test_files_that_do_not_fit_together(
        self, tmp_path: Path, images: tuple[int, ...], labels: int, complaint: str
    ) -> None:
        write(tmp_path / "mnist/train-images-idx3-ubyte", idx(images, random_bytes(*images).numpy().tobytes()))
        write(tmp_path / "mnist/train-labels-idx1-ubyte", idx((labels,), bytes(labels)))
        with pytest.raises(DataError, match=complaint):
            load("mnist", root=tmp_path)


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
    @pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
    def test_idx_sets(self, data_root: Path, name: str) -> None:
        dataset = loaded(name, data_root)
        assert resident(dataset.train).inputs.shape == (60000, 1, 28, 28)
        assert resident(dataset.test).inputs.shape == (10000, 1, 28, 28)
        assert resident(dataset.train).inputs.dtype == torch.uint8
        assert dataset.test.targets.bincount().tolist() == (
            [1000] * 10 if name == "fashion_mnist" else [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        )

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
