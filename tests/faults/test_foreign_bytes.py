"""Whatever bytes a file holds, reading it works or ends with one sentence."""

from __future__ import annotations

import importlib
import json
import math
import os
import pickle
import struct
import tempfile
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from polyarch.errors import CorruptFile, PolyarchError
from polyarch.prediction.predictor import Predictor

KINDS = (
    "csv", "csv to predict", "gzipped csv", "gzip", "npz", "npy inside npz", "npz to predict", "idx", "gzipped idx",
    "cifar10 binary", "cifar100 pickle", "svhn", "compressed svhn", "tfrecord", "json inside tfrecord",
    "protocol buffer inside tfrecord", "nats", "bzip2 of nats", "curve table", "safetensors", "architecture.json",
    "metadata.json", "records of an artifact", "png", "jpeg", "webp", "toml", "results.json",
)  # fmt: skip
EVALUATION = b"\x0a\x24" + b"".join(bytes([number << 3 | 1]) + struct.pack("<d", 0.5) for number in (2, 3, 4, 5))
TOGETHER = settings(suppress_health_check=list(HealthCheck), database=None)
MUTATIONS = int(os.environ.get("MUTATIONS", "400"))
"""Of every format in the slow tests."""
SEED = int(os.environ.get("SEED", "0"))
"""Others than 0 make other ones."""


@pytest.fixture(scope="module")
def mutations() -> ModuleType:
    return importlib.import_module("mutations")


@pytest.fixture(scope="module")
def files(folders: dict[str, Path], predictors: dict[str, Predictor]) -> dict[str, Any]:
    found: dict[str, Any] = importlib.import_module("foreign_files").foreign_files(folders["table"], predictors)
    assert set(found) == set(KINDS)
    return found


def check(file: Any, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            file.try_to_read(Path(folder), content)
        except PolyarchError as error:
            sentence = str(error)
            assert "\n" not in sentence and sentence.startswith("Expected"), sentence


@pytest.mark.parametrize("kind", KINDS)
def test_valid_files_are_read(kind: str, files: dict[str, Any], tmp_path: Path) -> None:
    """Otherwise the mutations would say nothing."""
    files[kind].try_to_read(tmp_path, files[kind].content)


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files(kind: str, files: dict[str, Any], mutations: ModuleType) -> None:
    @settings(TOGETHER, max_examples=25)
    @given(content=mutations.mutated(files[kind].content))
    def run(content: bytes) -> None:
        check(files[kind], content)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_mutated_files(kind: str, files: dict[str, Any], mutations: ModuleType) -> None:
    @seed(SEED)
    @settings(TOGETHER, max_examples=MUTATIONS)
    @given(content=mutations.mutated(files[kind].content))
    def run(content: bytes) -> None:
        check(files[kind], content)

    run()


def big_memory() -> bytes:
    """A pickle that claims to remember an object under number 2^31 - 1: an array of memory would take 34 GB."""
    return b"\x80\x02}r\xff\xff\xff\x7f."


class Stated:
    """Pickles as a numpy type with a state of one's own, in an array whose bytes that type says what they are."""

    def __init__(self, text: str, *state: Any) -> None:
        self.parts = (text, state)

    def __reduce__(self) -> Any:
        text, state = self.parts
        return np.dtype, (text, False, True), (3, "|", None, *state)


class Pointers:
    """Pickles as an array of one value of such a type."""

    def __init__(self, kind: Stated, data: bytes) -> None:
        self.parts = (kind, data)

    def __reduce__(self) -> Any:
        kind, data = self.parts
        return np.ndarray(0).__reduce__()[0], (np.ndarray, (0,), b"b"), (1, (1,), kind, False, data)


def pointers(text: str, *state: Any) -> bytes:
    """A batch of CIFAR whose pixels are said to be addresses of Python objects, which numpy would release."""
    return pickle.dumps({"data": Pointers(Stated(text, *state), b"\1" * 8), "fine_labels": [1]}, 2)


def wrong_run(place: int, value: object) -> bytes:
    """A run of NAS-Bench-101 with another value."""
    run = json.loads(importlib.import_module("foreign_files").nb101_run())
    run[place] = value
    return json.dumps(run).encode()


def unknown_type() -> bytes:
    """A Matlab file whose pixels are of a type that there is not, which took the process down."""
    content = bytearray(importlib.import_module("foreign_files").matlab_file())
    content[185] = 1
    return bytes(content)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("npz to predict", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': Fals4, 2), }" + b" " * 58 + b"\n"),
        ("npz to predict", b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((\n\n"),
        ("json inside tfrecord", wrong_run(0, "23456789abcdef0123456789abcdef")),
        ("json inside tfrecord", b"[" * 100_000),
        ("protocol buffer inside tfrecord", b"\x0a\x00" * 2 + EVALUATION + b"\x11" + struct.pack("<d", math.inf)),
        ("protocol buffer inside tfrecord", b"\x0a\x00" * 2 + EVALUATION + b"\x10" + b"\xff" * 8 + b"\x7f"),
        ("cifar100 pickle", big_memory()),
        ("cifar100 pickle", pointers("u1", None, None, -1, -1, 63)),
        ("cifar100 pickle", pointers("V8", ("f",), {"f": (np.dtype("O"), 0)}, 8, 1, 27)),
        ("cifar100 pickle", pointers("O", None, None, -1, -1, 63)),
        ("nats", big_memory()),
        ("svhn", unknown_type()),
        ("idx", b"\0\0\x08\x64" + struct.pack(">I", 1) * 100 + b"\0"),
    ],
)
def test_what_was_found(kind: str, content: bytes, files: dict[str, Any], tmp_path: Path) -> None:
    """Minimal cases that ended with a traceback, or took all memory."""
    with pytest.raises(CorruptFile):
        files[kind].try_to_read(tmp_path, content)


@settings(TOGETHER, max_examples=25)
@given(content=st.binary(max_size=300))
def test_any_bytes(content: bytes, files: dict[str, Any]) -> None:
    for kind in KINDS:
        check(files[kind], content)
