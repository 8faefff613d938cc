"""Small valid files of every format that polyarch reads, and what reads them.

A `ForeignFile` has the bytes that are mutated and wraps them again: mistakes inside a compressed or checked part would
never get past its checksum otherwise.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import pickle
import struct
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy.io import savemat

from polyarch.data import load
from polyarch.data.cifar import CIFAR10, CIFAR100, read_binary, read_python
from polyarch.data.decoding import decode_image
from polyarch.data.idx import read_idx
from polyarch.data.svhn import read_digits
from polyarch.export.records import read_records
from polyarch.export.weights import read_weights, weights_bytes
from polyarch.prediction.inputs import read_inputs
from polyarch.prediction.loading import load_artifact
from polyarch.prediction.predictor import Predictor
from polyarch.results import Results
from polyarch.runs.settings import RunSettings
from polyarch.spaces import nb201_space, nb201_string
from polyarch.tables import CurveTable, convert_nasbench101, convert_nats
from polyarch.tables.tfrecords import masked_crc32c

RESULTS = Path(__file__).parent.parent.parent / "docs" / "results" / "searches" / "digits.json"


@dataclass(frozen=True)
class ForeignFile:
    """A format.

    Args:
        name: of the file.
        content: what is mutated.
        read: what reads the file.
        wrap: the bytes of the file from the content.
        beside: other files of the folder.
    """

    name: str
    content: bytes
    read: Callable[[Path], Any]
    wrap: Callable[[bytes], bytes] = bytes
    beside: tuple[tuple[str, bytes], ...] = ()

    def try_to_read(self, folder: Path, content: bytes) -> Any:
        """Writes the content to the folder and reads it."""
        path = folder / self.name
        for name, other in self.beside:
            (folder / name).write_bytes(other)
        path.write_bytes(self.wrap(content))
        return self.read(path)


def foreign_files(artifact: Path, predictors: dict[str, Predictor]) -> dict[str, ForeignFile]:
    """Every format by name."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (6, 3, 4, 4), dtype=np.uint8)
    csv = b"age,colour,income,target\n" + b"".join(
        b"%d,%s,%d.5,%s\n" % (n, b"rb"[n % 2 :][:1], n * 7, b"yn"[n % 2 :][:1]) for n in range(12)
    )
    table = b"age,colour,income,city,label\n" + b"1,red,2,a,low\n" * 4
    npz = _npz(x=images, y=np.arange(6) % 2)
    cells = [nb201_space().architecture([operation] * 6) for operation in ("nor_conv_3x3", "none")]
    curve_table = CurveTable(
        "own", nb201_space(), [cell.indices for cell in cells], [90.0, 10.0], {"train_loss": [[2.0, 1.0]] * 2}
    )
    records = {
        name: (artifact / name).read_bytes() for name in ("architecture.json", "metadata.json", "weights.safetensors")
    }

    def beside(but: str) -> tuple[tuple[str, bytes], ...]:
        return tuple((name, content) for name, content in records.items() if name != but)

    def whole_artifact(path: Path) -> None:
        load_artifact(path.parent)

    return {
        "csv": ForeignFile("a.csv", csv, load),
        "csv to predict": ForeignFile("a.csv", table, _predicting(predictors["table"])),
        "gzipped csv": ForeignFile("a.csv.gz", csv, load, gzip.compress),
        "gzip": ForeignFile("a.csv.gz", gzip.compress(csv), load),
        "npz": ForeignFile("a.npz", npz, load),
        "npy inside npz": ForeignFile(
            "a.npz", _npy(images), load, lambda content: _zip(x=content, y=_npy(np.arange(6) % 2))
        ),
        "npz to predict": ForeignFile(
            "a.npz",
            _npy(random.normal(size=(4, 2)).astype(np.float32)),
            _predicting(predictors["vector"]),
            lambda content: _zip(x=content),
        ),
        "idx": ForeignFile("a-ubyte", b"\0\0\x08\3" + struct.pack(">III", 2, 3, 3) + bytes(18), read_idx),
        "gzipped idx": ForeignFile(
            "a.gz", b"\0\0\x08\3" + struct.pack(">III", 2, 3, 3) + bytes(18), read_idx, gzip.compress
        ),
        "cifar10 binary": ForeignFile("a.bin", bytes([3]) + bytes(3072), lambda path: read_binary(path, CIFAR10)),
        "cifar100 pickle": ForeignFile(
            "a",
            pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "fine_labels": [1, 2]}, 2),
            lambda path: read_python(path, CIFAR100),
        ),
        "svhn": ForeignFile("a.mat", matlab_file(), read_digits),
        "compressed svhn": ForeignFile("a.mat", matlab_file(compressed=True), read_digits),
        "tfrecord": ForeignFile("a.tfrecord", _frame(nb101_run()), _converting(convert_nasbench101)),
        "json inside tfrecord": ForeignFile("a.tfrecord", nb101_run(), _converting(convert_nasbench101), _frame),
        "protocol buffer inside tfrecord": ForeignFile(
            "a.tfrecord", _metrics(), _converting(convert_nasbench101), lambda content: _frame(nb101_run(content))
        ),
        "nats": ForeignFile(
            "000000.pickle.pbz2",
            pickle.dumps(_nats_cell(nb201_string(cells[0])), 4),
            lambda path: convert_nats(path.parent, path.parent / "out.npz"),
            bz2.compress,
            (("meta.pickle.pbz2", bz2.compress(pickle.dumps({"meta_archs": ["one"]}))),),
        ),
        "bzip2 of nats": ForeignFile(
            "000000.pickle.pbz2",
            bz2.compress(pickle.dumps(_nats_cell(nb201_string(cells[0])), 4)),
            lambda path: convert_nats(path.parent, path.parent / "out.npz"),
            beside=(("meta.pickle.pbz2", bz2.compress(pickle.dumps({"meta_archs": ["one"]}))),),
        ),
        "curve table": ForeignFile("a.npz", _saved(curve_table), CurveTable.load),
        "safetensors": ForeignFile(
            "a.safetensors", weights_bytes({"a": torch.ones(3), "b": torch.zeros(2, 2)}), read_weights
        ),
        "architecture.json": ForeignFile(
            "architecture.json", records["architecture.json"], whole_artifact, beside=beside("architecture.json")
        ),
        "metadata.json": ForeignFile(
            "metadata.json", records["metadata.json"], whole_artifact, beside=beside("metadata.json")
        ),
        "records of an artifact": ForeignFile(
            "metadata.json",
            records["metadata.json"],
            lambda path: read_records(path.parent),
            beside=beside("metadata.json"),
        ),
        "png": ForeignFile("a.png", _image("PNG"), _decoding),
        "jpeg": ForeignFile("a.jpg", _image("JPEG"), _decoding),
        "webp": ForeignFile("a.webp", _image("WEBP"), _decoding),
        "toml": ForeignFile(
            "a.toml",
            b'[data]\nname = "digits"\nlimit = 100\n[train]\nepochs = 2\n[space]\nkind = "nb201"\n',
            RunSettings.read,
        ),
        "results.json": ForeignFile("results.json", RESULTS.read_bytes(), Results.read),
    }


def _predicting(predictor: Predictor) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        for batch in read_inputs(path, predictor).batches:
            predictor(batch)

    return read


def _converting(convert: Callable[[Path, Path], Any]) -> Callable[[Path], None]:
    return lambda path: convert(path, path.with_name("out.npz"))


def _decoding(path: Path) -> None:
    decode_image(path.read_bytes(), (3, 4, 4), str(path))


def _npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _zip(**arrays: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in arrays.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def matlab_file(*, compressed: bool = False) -> bytes:
    """Two digits as SVHN stores them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.mat"
        savemat(
            str(path),
            {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [10]], np.uint8)},
            do_compression=compressed,
        )
        return path.read_bytes()


def _image(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def _saved(table: CurveTable) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        table.save(Path(folder) / "a.npz")
        return (Path(folder) / "a.npz").read_bytes()


def _frame(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def _metrics() -> bytes:
    """``ModelMetrics`` of NAS-Bench-101: three evaluations and the number of parameters."""
    doubles = zip((1, 2, 3, 4, 5), (108.0, 1000.0, 0.99, 0.93, 0.92), strict=True)
    evaluation = b"".join(bytes([number << 3 | 1]) + struct.pack("<d", value) for number, value in doubles)
    return (b"\x0a" + bytes([len(evaluation)]) + evaluation) * 3 + b"\x10\xc0\x84\x3d"


def nb101_run(metrics: bytes | None = None) -> bytes:
    """A record of NAS-Bench-101."""
    encoded = base64.b64encode(_metrics() if metrics is None else metrics).decode()
    return json.dumps(["0123456789abcdef" * 2, 108, "0100", "input,output", encoded]).encode()


def _nats_cell(text: str) -> dict[str, Any]:
    def run(kept: tuple[str, ...]) -> dict[str, Any]:
        keys = [f"{name}@0" for name in kept]
        measured = {"eval_acc1es": dict.fromkeys(keys, 50.0), "eval_losses": dict.fromkeys(keys, 1.0)}
        trained = {"train_acc1es": {0: 60.0}, "train_losses": {0: 1.0}, "train_times": {0: 1.5}}
        return {**measured, **trained, "epochs": 1, "params": 0.1, "flop": 15.0, "latency": [0.01]}

    sets = dict.fromkeys(("cifar10-valid", "cifar10", "cifar100", "ImageNet16-120"), ("x-valid", "x-test", "ori-test"))
    results = {
        "arch_str": text,
        "all_results": {(name, 777): run(kept) for name, kept in sets.items()},
        "dataset_seed": {name: [777] for name in sets},
    }
    return OrderedDict({"200": results, "12": results})
