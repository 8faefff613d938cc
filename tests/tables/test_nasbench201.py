"""The NAS-Bench-201 table."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from polyarch.benchmarks import NASBench201
from polyarch.errors import CorruptFile, MissingData, UnknownName
from polyarch.spaces import nb201_space


def test_known_values(nb201_table_path: Path) -> None:
    table = NASBench201.load(nb201_table_path)
    cells = list(nb201_space().enumerate())
    accuracies = [table.value(cell, "cifar10_test_200") for cell in cells]
    assert len(table) == len(cells) == 15625
    assert max(accuracies) == pytest.approx(94.3733)
    skips = nb201_space().architecture(["skip_connect"] * 6)
    assert table.value(skips, "cifar10_test_200") == pytest.approx(54.2967)
    with pytest.raises(UnknownName, match="Did you mean 'cifar10_test_200'"):
        table.value(skips, "cifar10_test_20")


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
