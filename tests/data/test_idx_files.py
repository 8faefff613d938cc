from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from polyarch.data import load, resident
from polyarch.data.idx import KUZUSHIJI_CLASSES, read_idx
from polyarch.errors import CorruptFile, DataError, MissingData
from polyarch.randomness import generator_at


def idx(shape: tuple[int, ...], values: bytes, *, magic: bytes = b"\x00\x00\x08") -> bytes:
    return magic + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + values


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def random_bytes(*shape: int) -> Tensor:
    return torch.randint(256, shape, generator=generator_at(0, "pixels"), dtype=torch.uint8)


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

    def test_cursive_letters(self, tmp_path: Path) -> None:
        for part in ("train", "t10k"):
            write(tmp_path / f"kmnist/{part}-images-idx3-ubyte.gz", idx((4, 28, 28), bytes(4 * 28 * 28)))
            write(tmp_path / f"kmnist/{part}-labels-idx1-ubyte.gz", idx((4,), bytes([0, 9, 1, 1])))
        kmnist = load("kmnist", root=tmp_path)
        assert (kmnist.name, kmnist.class_names) == ("kmnist", KUZUSHIJI_CLASSES)
        assert kmnist.train.targets.tolist() == [0, 9, 1, 1]

    @pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "kmnist"])
    def test_missing_file_is_named_with_the_way_out(self, tmp_path: Path, name: str) -> None:
        complaint = rf"train-images-idx3-ubyte.* in {tmp_path / name}\. .*polyarch data download {name}"
        with pytest.raises(MissingData, match=complaint):
            load(name, root=tmp_path)

    @pytest.mark.parametrize(
        ("images", "labels", "complaint"), [((6, 784), 6, "N x H x W"), ((6, 28, 28), 5, "one label per example")]
    )
    def test_files_that_do_not_fit_together(
        self, tmp_path: Path, images: tuple[int, ...], labels: int, complaint: str
    ) -> None:
        write(tmp_path / "mnist/train-images-idx3-ubyte", idx(images, random_bytes(*images).numpy().tobytes()))
        write(tmp_path / "mnist/train-labels-idx1-ubyte", idx((labels,), bytes(labels)))
        with pytest.raises(DataError, match=complaint):
            load("mnist", root=tmp_path)
