from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from polyarch.data import Dataset, load, resident
from polyarch.data.cifar import CIFAR10_CLASSES
from polyarch.errors import CorruptFile, MissingData
from polyarch.randomness import generator_at


def random_bytes(*shape: int) -> Tensor:
    return torch.randint(256, shape, generator=generator_at(0, "pixels"), dtype=torch.uint8)


IMAGES = random_bytes(12, 3, 32, 32)
"""Two for each of the five batches, two for testing."""

FINE_NAMES = [f"thing {number}".replace(" ", "_") for number in range(100)]


def binary_cifar10(folder: Path) -> None:
    folder.mkdir(parents=True)
    for batch, name in enumerate([*(f"data_batch_{part}" for part in range(1, 6)), "test_batch"]):
        records = [bytes([2 * batch % 10 + row]) + IMAGES[2 * batch + row].numpy().tobytes() for row in range(2)]
        (folder / f"{name}.bin").write_bytes(b"".join(records))
    (folder / "batches.meta.txt").write_text("\n".join(CIFAR10_CLASSES) + "\n\n")


def binary_cifar100(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, rows in (("train", range(10)), ("test", range(10, 12))):
        records = [bytes([row % 20, 7 * row]) + IMAGES[row].numpy().tobytes() for row in rows]
        (folder / f"{name}.bin").write_bytes(b"".join(records))
    (folder / "fine_label_names.txt").write_text("\n".join(FINE_NAMES) + "\n")


def old_pickle(**values: Any) -> bytes:
    """A dictionary as Python 2 and the numpy of its time pickled it: byte strings, numpy.core, flags as integers."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value

    def array(value: Tensor) -> bytes:
        shape = b"".join(b"M" + struct.pack("<H", size) for size in value.shape)
        dtype = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        start = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        return start + b"(K\x01(" + shape + b"t" + dtype + b"\x89" + text(value.numpy().tobytes()) + b"tb"

    def anything(value: Any) -> bytes:
        if isinstance(value, Tensor):
            return array(value)
        if isinstance(value, list):
            return b"](" + b"".join(map(anything, value)) + b"e"
        return b"K" + bytes([value]) if isinstance(value, int) else text(value.encode())

    items = b"".join(text(key.encode()) + anything(value) for key, value in values.items())
    return b"\x80\x02}(" + items + b"u."


def new_pickle(protocol: int) -> Callable[..., bytes]:
    def write(**values: Any) -> bytes:
        plain = {key: value.numpy() if isinstance(value, Tensor) else value for key, value in values.items()}
        return pickle.dumps(plain, protocol)

    return write


def python_cifar10(folder: Path, dump: Callable[..., bytes] = old_pickle) -> None:
    folder.mkdir(parents=True)
    for batch, name in enumerate([*(f"data_batch_{part}" for part in range(1, 6)), "test_batch"]):
        rows = IMAGES[2 * batch : 2 * batch + 2].flatten(1)
        labels = [2 * batch % 10, 2 * batch % 10 + 1]
        (folder / name).write_bytes(dump(batch_label=name, labels=labels, data=rows, filenames=["a.png", "b.png"]))
    (folder / "batches.meta").write_bytes(dump(num_cases_per_batch=2, label_names=list(CIFAR10_CLASSES), num_vis=7))


def python_cifar100(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, rows in (("train", range(10)), ("test", range(10, 12))):
        fine, coarse = [7 * row for row in rows], [row % 20 for row in rows]
        data = IMAGES[rows.start : rows.stop].flatten(1)
        (folder / name).write_bytes(old_pickle(fine_labels=fine, coarse_labels=coarse, data=data))
    (folder / "meta").write_bytes(old_pickle(fine_label_names=FINE_NAMES, coarse_label_names=["a"]))


class TestOfficialFiles:
    @pytest.mark.parametrize("place", ["cifar10/cifar-10-batches-bin", "cifar10", "cifar-10-batches-bin"])
    def test_binary_cifar10(self, tmp_path: Path, place: str) -> None:
        binary_cifar10(tmp_path / place)
        self.check_cifar10(load("cifar10", root=tmp_path))

    @pytest.mark.parametrize("place", ["cifar10/cifar-10-batches-py", "cifar10"])
    @pytest.mark.parametrize("dump", [old_pickle, new_pickle(2), new_pickle(4)], ids=["python 2", "2", "4"])
    def test_python_cifar10(self, tmp_path: Path, place: str, dump: Callable[..., bytes]) -> None:
        python_cifar10(tmp_path / place, dump)
        self.check_cifar10(load("cifar10", root=tmp_path))

    def check_cifar10(self, data: Dataset) -> None:
        assert (data.name, data.class_names) == ("cifar10", CIFAR10_CLASSES)
        assert torch.equal(resident(data.train).inputs, IMAGES[:10])
        assert torch.equal(resident(data.test).inputs, IMAGES[10:])
        assert data.train.targets.tolist() == list(range(10))
        assert data.test.targets.tolist() == [0, 1]

    @pytest.mark.parametrize(
        ("make", "place"),
        [
            (binary_cifar100, "cifar100/cifar-100-binary"),
            (binary_cifar100, "cifar100"),
            (python_cifar100, "cifar100/cifar-100-python"),
            (python_cifar100, "cifar100"),
        ],
    )
    def test_cifar100_has_fine_labels(self, tmp_path: Path, make: Callable[[Path], None], place: str) -> None:
        make(tmp_path / place)
        data = load("cifar100", root=tmp_path)
        assert data.class_names == tuple(FINE_NAMES)
        assert data.train.targets.tolist() == [7 * row for row in range(10)]
        assert torch.equal(resident(data.test).inputs, IMAGES[10:])

    def test_without_a_file_of_names(self, tmp_path: Path) -> None:
        binary_cifar100(tmp_path / "cifar100")
        (tmp_path / "cifar100" / "fine_label_names.txt").unlink()
        assert load("cifar100", root=tmp_path).class_names[42] == "fine label 42"

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("cifar10", r"cifar-10-batches-bin/data_batch_1\.bin, cifar-10-batches-py/data_batch_1 or train_1\.webp"),
            ("cifar100", r"cifar-100-binary/train\.bin, cifar-100-python/train"),
        ],
    )
    def test_nothing_there(self, tmp_path: Path, name: str, expected: str) -> None:
        with pytest.raises(MissingData, match=rf"{expected}.*polyarch data download {name}"):
            load(name, root=tmp_path)


class Call:
    """Unpickles as a call of a function."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


class TestDamage:
    @pytest.mark.parametrize(
        ("damage", "complaint"),
        [
            (lambda f: (f / "data_batch_2.bin").write_bytes(b"x" * 3000), "records of 3073 bytes. Found 3000 bytes"),
            (lambda f: (f / "test_batch.bin").write_bytes(b""), "records of 3073 bytes. Found 0 bytes"),
            (lambda f: (f / "batches.meta.txt").write_text("a b"), "10 class names in .* Found 2"),
        ],
    )
    def test_binary_files(self, tmp_path: Path, damage: Callable[[Path], object], complaint: str) -> None:
        binary_cifar10(tmp_path / "cifar10")
        damage(tmp_path / "cifar10")
        with pytest.raises(CorruptFile, match=complaint):
            load("cifar10", root=tmp_path)

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [
            (b"", "to be a pickled dictionary"),
            (old_pickle(labels=[1])[:-4], "to be a pickled dictionary"),
            (pickle.dumps([1, 2]), "pickled dictionary. Found list"),
            (pickle.dumps({"labels": [1]}), "'data' of .* to be N x 3072 bytes"),
            (old_pickle(data=IMAGES[:1].flatten(1)), "'labels' of .* to be a list of integers"),
            (old_pickle(data=IMAGES[:1].flatten(1), labels=["a"]), "'labels' of .* to be a list of integers"),
            (pickle.dumps({"data": np.array([{}])}), "plain values only. Found values of type 'O8'"),
        ],
    )
    def test_python_files(self, tmp_path: Path, content: bytes, complaint: str) -> None:
        python_cifar10(tmp_path / "cifar10")
        (tmp_path / "cifar10" / "data_batch_3").write_bytes(content)
        with pytest.raises(CorruptFile, match=complaint) as caught:
            load("cifar10", root=tmp_path)
        assert "data_batch_3" in str(caught.value)

    @pytest.mark.parametrize(
        "make",
        [
            lambda path: Call(os.system, f"touch {path}"),
            lambda path: Call(exec, f"open({str(path)!r}, 'w')"),
            lambda path: Call(getattr, np.ndarray, "tofile"),
            lambda path: Call(Path.touch, path),
        ],
    )
    @pytest.mark.parametrize("protocol", [0, 2, 4])
    @pytest.mark.parametrize("file", ["data_batch_1", "batches.meta"])
    def test_hostile_pickle_is_refused_and_not_run(
        self, tmp_path: Path, make: Callable[[Path], Call], protocol: int, file: str
    ) -> None:
        python_cifar10(tmp_path / "cifar10")
        trace = tmp_path / "trace"
        (tmp_path / "cifar10" / file).write_bytes(pickle.dumps({"data": make(trace)}, protocol))
        with pytest.raises(CorruptFile, match=rf"{file} to hold plain values only\. Found \w+"):
            load("cifar10", root=tmp_path)
        assert not trace.exists()
