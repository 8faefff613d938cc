"""NAS-Bench-101: records as its authors write them, by the official encoder of protocol buffers."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyarch.errors import CorruptFile, InvalidInput, MissingData, UnknownName
from polyarch.spaces import Architecture
from polyarch.spaces.nb101 import nb101_cell, nb101_space
from polyarch.tables import NASBench101, convert_nasbench101
from polyarch.tables import nasbench101 as module
from polyarch.tables.curve_table import write_arrays
from polyarch.tables.tfrecords import crc32c, masked_crc32c, read_fields, read_records
from polyarch.testing import TruthContract

SPACE = nb101_space(1)
MEMBERS = list({member.canonical(): member for member in SPACE.members[::1999]}.values())
DOUBLE, INT32, MESSAGE, STRING = 1, 5, 11, 9


def official_messages() -> Any:
    """``ModelMetrics`` of the file model_metrics.proto."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    descriptor_pool = pytest.importorskip("google.protobuf.descriptor_pool")
    message_factory = pytest.importorskip("google.protobuf.message_factory")
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package="nasbench", syntax="proto2")
    evaluation = file.message_type.add(name="EvaluationData")
    names = ("current_epoch", "training_time", "train_accuracy", "validation_accuracy", "test_accuracy")
    for number, name in enumerate(names, start=1):
        evaluation.field.add(name=name, number=number, type=DOUBLE, label=1)
    evaluation.field.add(name="checkpoint_path", number=6, type=STRING, label=1)
    metrics = file.message_type.add(name="ModelMetrics")
    metrics.field.add(name="evaluation_data", number=1, type=MESSAGE, label=3, type_name=".nasbench.EvaluationData")
    metrics.field.add(name="trainable_parameters", number=2, type=INT32, label=1)
    metrics.field.add(name="total_time", number=3, type=DOUBLE, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("nasbench.ModelMetrics"))


METRICS = official_messages()


def accuracy(member: int, epochs: int, run: int, kind: int) -> float:
    return (member * 17 + epochs * 5 + run * 3 + kind) % 1000 / 1000


def run_of(member: int, architecture: Architecture, epochs: int, run: int) -> list[Any]:
    metrics = METRICS(trainable_parameters=1_000_000 + member, total_time=99.0)
    for part, share in enumerate((0.0, 0.5, 1.0)):
        last = part == 2
        metrics.evaluation_data.add(
            current_epoch=share * epochs,
            training_time=share * (epochs * 10.0 + run),
            train_accuracy=accuracy(member, epochs, run, 1) if last else 0.25,
            validation_accuracy=accuracy(member, epochs, run, 2) if last else 0.25,
            test_accuracy=accuracy(member, epochs, run, 3) if last else 0.25,
            checkpoint_path="",
        )
    cell = nb101_cell(architecture).pruned()
    matrix = "".join(str(entry) for row in cell.matrix for entry in row)
    encoded = base64.b64encode(metrics.SerializeToString()).decode()
    return [cell.hash(), epochs, matrix, ",".join(cell.operations), encoded]


def frame(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def write_file(path: Path, budgets: tuple[int, ...] = (108,)) -> Path:
    runs = [
        run_of(number, architecture, epochs, run)
        for run in range(3)
        for number, architecture in enumerate(MEMBERS)
        for epochs in budgets
    ]
    path.write_bytes(b"".join(frame(json.dumps(content).encode()) for content in runs))
    return path


@pytest.fixture(scope="module")
def table(full: Path) -> NASBench101:
    return NASBench101.load(full, space=1)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nb101")
    convert_nasbench101(write_file(folder / "full.tfrecord", (4, 12, 36, 108)), folder / "nb101.npz")
    return folder / "nb101.npz"


class TestNASBench101(TruthContract):
    @pytest.fixture(autouse=True)
    def _converted(self, table: NASBench101) -> None:
        self.table = table

    def make_truth(self) -> NASBench101:
        return self.table

    def make_stranger(self) -> Architecture:
        return next(member for member in SPACE.members if member not in self.table)


def test_checksums_of_the_standard() -> None:
    """RFC 3720, B.4, and the usual check value."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


@given(parameters=st.integers(0, 2**31 - 1), seconds=st.floats(allow_nan=False), text=st.text(max_size=200))
def test_fields_are_those_of_the_official_encoder(parameters: int, seconds: float, text: str) -> None:
    message = METRICS(trainable_parameters=parameters, total_time=seconds)
    message.evaluation_data.add(training_time=seconds, checkpoint_path=text)
    fields = dict(read_fields(message.SerializeToString()))
    assert (fields[2], fields[3]) == (parameters, seconds)
    assert isinstance(fields[1], bytes)
    assert dict(read_fields(fields[1])) == {2: seconds, 6: text.encode()}


@given(records=st.lists(st.binary(max_size=40), max_size=5))
def test_records_come_back(records: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("records") / "file.tfrecord"
    path.write_bytes(b"".join(map(frame, records)))
    assert list(read_records(path)) == records


@pytest.mark.parametrize("position", [0, 9, 14, -3])
def test_a_changed_byte_is_noticed(tmp_path: Path, position: int) -> None:
    data = bytearray(frame(b"some record"))
    data[position] ^= 1
    (tmp_path / "file").write_bytes(bytes(data))
    with pytest.raises(CorruptFile, match=r"to be whole TFRecords\. Found a .*checksum"):
        list(read_records(tmp_path / "file"))


@pytest.mark.parametrize("kept", [5, 15, 25])
def test_a_torn_file_is_noticed(tmp_path: Path, kept: int) -> None:
    (tmp_path / "file").write_bytes(frame(b"some record") + frame(b"some record")[:kept])
    with pytest.raises(CorruptFile, match="to be whole TFRecords"):
        list(read_records(tmp_path / "file"))


def test_means_of_three_runs(full: Path, table: NASBench101) -> None:
    assert len(MEMBERS) > 3
    assert table.epochs == (4, 12, 36, 108) and table.measures == ("train_accuracy", "valid_accuracy", "test_accuracy")
    for number, member in enumerate(MEMBERS):
        for kind, measure in enumerate(table.measures, start=1):
            expected = [100 * np.mean([accuracy(number, e, run, kind) for run in range(3)]) for e in table.epochs]
            np.testing.assert_allclose(table.curve(member, measure), expected, rtol=1e-6)
        assert table.accuracy(member) == table.curve(member, "test_accuracy")[-1]
    other = NASBench101.load(full, space=1, measure="valid_accuracy")
    assert other.accuracy(MEMBERS[1]) == table.curve(MEMBERS[1], "valid_accuracy")[-1]


def test_one_budget_has_no_curves(tmp_path: Path) -> None:
    seen: list[int] = []
    convert_nasbench101(write_file(tmp_path / "only108.tfrecord"), tmp_path / "nb101.npz", seen.append)
    table = NASBench101.load(tmp_path / "nb101.npz", space=1)
    assert table.epochs == (108,) and table.measures == () and seen == []
    assert table.accuracy(MEMBERS[0]) == pytest.approx(100 * np.mean([accuracy(0, 108, run, 3) for run in range(3)]))
    with pytest.raises(InvalidInput, match="Found none in nb101"):
        table.curve(MEMBERS[0])


def test_isomorphic_architectures_are_one_cell(table: NASBench101) -> None:
    known = table.architectures()
    assert len(known) > len(MEMBERS)  # loose ends and isomorphic cells
    by_cell: dict[str, set[float]] = {}
    for member in known:
        by_cell.setdefault(member.canonical(), set()).add(table.accuracy(member))
    assert len(by_cell) == len(MEMBERS)
    assert all(len(values) == 1 for values in by_cell.values())


def test_the_whole_benchmark_knows_the_whole_space(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CELLS", len(MEMBERS))
    assert len(NASBench101.load(full, space=3)) == nb101_space(3).size == 1_312_200
    assert NASBench101.load(full, space=1).architectures() == SPACE.members


def replaced(content: list[Any], position: int, new: Any) -> list[Any]:
    return [*content[:position], new, *content[position + 1 :]]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda content: replaced(content, 1, 50), "not in tuple"),
        (lambda content: replaced(content, 0, "no hash"), "non-hexadecimal"),
        (lambda content: replaced(content, 4, "no base64"), "record 2"),
        (lambda content: replaced(content, 4, base64.b64encode(b"\x0a\x7f").decode()), "longer than its message"),
        (lambda content: replaced(content, 4, base64.b64encode(b"\x10\x01").decode()), "0 evaluations"),
        (lambda content: content[:4], "record 2"),
        (lambda content: {"a": 1}, "record 2"),
    ],
)
def test_records_of_another_kind(tmp_path: Path, change: Any, sentence: str) -> None:
    content = run_of(0, MEMBERS[0], 108, 0)
    records = [content, change(content)]
    (tmp_path / "file").write_bytes(b"".join(frame(json.dumps(record).encode()) for record in records))
    with pytest.raises(CorruptFile, match=f"record 2 of .* to be a run of NAS-Bench-101.*{sentence}|{sentence} of"):
        convert_nasbench101(tmp_path / "file", tmp_path / "nb101.npz")
    assert not (tmp_path / "nb101.npz").exists()


def test_cells_without_all_budgets_and_empty_files(tmp_path: Path) -> None:
    runs = [run_of(0, MEMBERS[0], 108, 0), run_of(0, MEMBERS[0], 4, 0), run_of(1, MEMBERS[1], 108, 0)]
    (tmp_path / "file").write_bytes(b"".join(frame(json.dumps(content).encode()) for content in runs))
    with pytest.raises(CorruptFile, match="every cell with every budget"):
        convert_nasbench101(tmp_path / "file", tmp_path / "nb101.npz")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CorruptFile, match="Found 0 cells"):
        convert_nasbench101(tmp_path / "file", tmp_path / "nb101.npz")
    with pytest.raises(MissingData, match="no such file"):
        convert_nasbench101(tmp_path / "absent", tmp_path / "nb101.npz")


def test_absent_and_damaged_conversions(tmp_path: Path, full: Path) -> None:
    path = tmp_path / "nb101.npz"
    with pytest.raises(MissingData, match="polyarch truth convert nb101"):
        NASBench101.load(path)
    path.write_bytes(full.read_bytes()[:-40])
    with pytest.raises(CorruptFile, match="converted NAS-Bench-101"):
        NASBench101.load(path)
    with np.load(full) as file:
        arrays = dict(file)
    for changed in (
        {"hashes": arrays["hashes"][::-1]},
        {"test_accuracy": arrays["test_accuracy"][:-1]},
        {"epochs": np.array([4])},
    ):
        write_arrays(path, {**arrays, **changed})
        with pytest.raises(CorruptFile, match="converted NAS-Bench-101"):
            NASBench101.load(path)
    with pytest.raises(UnknownName, match="Did you mean 'valid_accuracy'"):
        NASBench101.load(full, measure="validation_accuracy")
