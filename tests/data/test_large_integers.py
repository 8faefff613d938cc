"""Ids and labels that float64 cannot tell apart stay different."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from polyarch.data import load
from polyarch.data.columns import cells_of

PAIRS = [
    (9007199254740992, 9007199254740993),  # int64
    (18446744073709551614, 18446744073709551615),  # uint64
    (123456789012345678901234567890, 123456789012345678901234567891),
    (-9223372036854775808, 18446744073709551615),  # no common type of pandas
]


def write(path: Path, pair: tuple[int, int], *, header: str = "x,z,label") -> Path:
    rows = [f"{number},{number * 7 % 5},{pair[number % 2]}" for number in range(40)]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize("pair", PAIRS)
def test_labels_in_tables_stay_exact(pair: tuple[int, int], tmp_path: Path) -> None:
    data = load(write(tmp_path / "rows.csv", pair))
    assert set(data.class_names) == {str(value) for value in pair}
    first = data.class_names.index(str(pair[0]))
    numbers = data.train.inputs[:, 0].int()  # type: ignore[attr-defined]
    assert ((data.train.targets == first) == (numbers % 2 == 0)).all()


def test_held_out_rows_have_the_same_labels(tmp_path: Path) -> None:
    rows, others = write(tmp_path / "rows.csv", PAIRS[0]), write(tmp_path / "others.csv", PAIRS[0])
    data = load(rows, test=others)
    assert data.test.targets.tolist() == [number % 2 for number in range(40)]


def test_groups_stay_apart(tmp_path: Path) -> None:
    cells = cells_of(pd.Series(PAIRS[0], name="id"), "the test")
    assert cells.codes.tolist() == [0, 1] and cells.words() == tuple(map(str, PAIRS[0]))
    assert cells.as_numbers().tolist() == [2.0**53, 2.0**53]


def test_missing_cells_stay_missing() -> None:
    cells = cells_of(pd.Series([PAIRS[0][0], None, PAIRS[0][1]], dtype="Int64", name="id"), "the test")
    assert cells.codes.tolist() == [0, -1, 1] and np.isnan(cells.as_numbers()[1])


def test_labels_in_arrays_stay_exact() -> None:
    labels = np.array([PAIRS[1][number % 2] for number in range(20)], dtype=np.uint64)
    data = load((np.arange(40, dtype=np.float32).reshape(20, 2), labels))
    assert set(data.class_names) == {str(value) for value in PAIRS[1]}
