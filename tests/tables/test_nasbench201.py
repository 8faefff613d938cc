"""The NAS-Bench-201 table."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from polyarch.errors import CorruptFile, InvalidInput, MissingData, UnknownName
from polyarch.spaces import NB201_OPERATIONS, nb201_space, nb201_string
from polyarch.tables import NASBench201
from polyarch.tables.nasbench201 import CELLS
from polyarch.testing import TruthContract


@pytest.fixture(scope="module")
def table(nb201_table_path: Path) -> NASBench201:
    return NASBench201.load(nb201_table_path)


class TestNASBench201(TruthContract):
    @pytest.fixture(autouse=True)
    def _loaded(self, table: NASBench201) -> None:
        self.table = table

    def make_truth(self) -> NASBench201:
        return self.table


def test_known_values(table: NASBench201) -> None:
    cells = list(nb201_space().enumerate())
    assert len(table) == len(cells) == CELLS
    columns = ("cifar10_test_200", "cifar100_test_200", "imagenet16_test_200")
    maxima = [max(table.value(cell, column) for cell in cells) for column in columns]
    assert maxima == pytest.approx([94.3733, 73.5133, 47.3111])
    skips = nb201_space().architecture(["skip_connect"] * 6)
    assert [table.value(skips, column) for column in columns] == pytest.approx([54.2967, 15.6067, 16.3222])
    with pytest.raises(UnknownName, match="Did you mean 'cifar10_test_200'"):
        table.value(skips, "cifar10_test_20")


def test_every_number_is_that_of_the_file(table: NASBench201, nb201_table_path: Path) -> None:
    header, *lines = gzip.decompress(nb201_table_path.read_bytes()).decode().splitlines()
    for cell, line in list(zip(table.architectures(), lines, strict=True))[::97]:
        row = next(csv.DictReader([header, line]))
        assert row["arch_str"] == nb201_string(cell)
        for column in table.columns:
            if row[column]:
                assert table.value(cell, column) == float(row[column])
            else:
                with pytest.raises(InvalidInput, match=f"{column} for .* Got an empty cell"):
                    table.value(cell, column)


def test_another_column_is_the_accuracy(nb201_table_path: Path, table: NASBench201) -> None:
    other = NASBench201.load(nb201_table_path, "cifar100_valid_12")
    cell = table.architectures()[7]
    assert other.accuracy(cell) == table.value(cell, "cifar100_valid_12") != table.accuracy(cell)
    assert other.name == "nb201:cifar100_valid_12"
    with pytest.raises(UnknownName, match="Did you mean"):
        NASBench201.load(nb201_table_path, "cifar100_valid_13")
    with pytest.raises(UnknownName, match="unique_str"):
        table.value(cell, "unique_str")


@pytest.mark.parametrize("operations", [NB201_OPERATIONS[1:], ("nor_conv_3x3", "nor_conv_1x1")])
def test_members_of_sub_spaces_are_found(table: NASBench201, operations: tuple[str, ...]) -> None:
    whole = nb201_space()
    for member in list(nb201_space(operations).enumerate())[::31]:
        assert table.accuracy(member) == table.accuracy(whole.architecture(member.to_dict()))


def test_there_are_no_curves(table: NASBench201) -> None:
    assert table.measures == ()
    with pytest.raises(InvalidInput, match="Found none in nb201:cifar10_test_200"):
        table.curve(table.architectures()[0])


def test_order_is_the_index_of_the_benchmark(table: NASBench201) -> None:
    cells = table.architectures()
    assert nb201_string(cells[0]).startswith("|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|nor_conv_1x1~0|")
    assert nb201_string(cells[123]).startswith("|avg_pool_3x3~0|+|avg_pool_3x3~0|nor_conv_1x1~1|+|none~0|")


def test_absent_and_damaged(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="POLYARCH_DATA"):
        NASBench201.load(tmp_path / "absent.csv.gz")
    path = tmp_path / "table.csv.gz"
    path.write_bytes(b"not gzip")
    with pytest.raises(CorruptFile, match="gzipped table"):
        NASBench201.load(path)
    path.write_bytes(gzip.compress(b"index,arch_str\n0,|none~0|\n"))
    with pytest.raises(CorruptFile, match="15625 cells"):
        NASBench201.load(path)
    path.write_bytes(gzip.compress(b"index,cell\n0,|none~0|\n"))
    with pytest.raises(CorruptFile, match="no column arch_str"):
        NASBench201.load(path)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ((b"avg_pool_3x3~0|+", b"avg_pool_9x9~0|+"), "cell '.avg_pool_9x9"),
        ((b"1,|nor_conv_3x3~0|+|nor_conv_3x3~0|avg", b"1,|nor_conv_3x3~0|+|nor_conv_3x3~0,avg"), "cell"),
        ((b",93.66,", b",ninety,"), "could not convert"),
    ],
)
def test_a_damaged_row_is_noticed_when_loading(
    tmp_path: Path, nb201_table_path: Path, damage: tuple[bytes, bytes], sentence: str
) -> None:
    content = gzip.decompress(nb201_table_path.read_bytes())
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(content.replace(*damage, 1), compresslevel=0))
    with pytest.raises(CorruptFile, match=sentence):
        NASBench201.load(path)


def test_a_cell_twice_is_noticed(tmp_path: Path, nb201_table_path: Path) -> None:
    lines = gzip.decompress(nb201_table_path.read_bytes()).splitlines()
    lines[5] = lines[6]
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines), compresslevel=0))
    with pytest.raises(CorruptFile, match="every architecture once"):
        NASBench201.load(path)
