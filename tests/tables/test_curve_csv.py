"""Learning curves from CSV files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from polyarch.errors import CorruptFile, DataError, MissingData
from polyarch.spaces import Choice, Space, nb201_space, nb201_string
from polyarch.tables import read_curve_csv

SPACE = Space("small", (Choice("first", ("a", "b")), Choice("second", ("x", "y"))))
FILE = """architecture,epoch,train_loss,valid_accuracy,test_accuracy
a|x,2,1.5,44.0,43.5
a|x,1,2.0,31.5,31.0
"b,y",1,2.5,20.0,19.5
b|x,1,2.2,,18.0
b|x,2,2.1,,18.5
b|x,3,,,
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.csv"
    path.write_text(text)
    return path


def test_rows_of_any_order_become_curves(tmp_path: Path) -> None:
    table = read_curve_csv(written(tmp_path, FILE), SPACE)
    first, second, third = table.architectures()
    assert [member.key for member in (first, second, third)] == ["a|x", "b|y", "b|x"]
    assert table.name == "mine" and table.measures == ("train_loss", "valid_accuracy", "test_accuracy")
    assert [table.accuracy(member) for member in (first, second, third)] == [43.5, 19.5, 18.5]
    assert table.curve(first, "train_loss").tolist() == [2.0, 1.5]
    assert table.curve(second, "train_loss").tolist() == [2.5]
    assert table.curve(third, "train_loss").tolist() == pytest.approx([2.2, 2.1])
    assert table.curve(third).tolist() == []


def test_compressed_files_and_published_notation(tmp_path: Path) -> None:
    cell = nb201_space().architecture(["skip_connect"] * 6)
    path = tmp_path / "cells.csv.gz"
    path.write_bytes(gzip.compress(f"architecture,epoch,valid_accuracy\n{nb201_string(cell)},1,54.5\n".encode()))
    assert read_curve_csv(path, nb201_space()).accuracy(cell) == 54.5


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("architecture,epoch", "cell,epoch", "Expected the columns architecture, epoch"),
        ("valid_accuracy,test_accuracy", "valid,test", "one of test_accuracy or valid_accuracy"),
        ("valid_accuracy,", "test_accuracy,", "Expected the columns"),
        ("a|x,2", "a|x,1", "Got 1 twice for a.x"),
        ("a|x,2", "a|x,3", "without gaps"),
        ("a|x,2", "a|x,0", "line 2 .*below 1"),
        ("a|x,2", "a|x,two", "line 2"),
        ("43.5", "good", "line 2 .*good"),
        ("a|x,2,1.5,44.0,43.5", "a|x,2,1.5", "line 2 .*other than 5 columns"),
        ("a|x,2,1.5,44.0,43.5", "a|x,2,1.5,44.0,43.5,6", "line 2 .*other than 5 columns"),
        ("a|x", "a|z", "option of choice 'second' out of x, y. Got 'z'"),
        ("19.5", "", "accuracy for every architecture in .* Got none for b,y"),
    ],
)
def test_what_does_not_fit_is_a_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert old in FILE
    with pytest.raises(DataError, match=sentence):
        read_curve_csv(written(tmp_path, FILE.replace(old, new)), SPACE)


def test_absent_empty_and_damaged(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="no such file"):
        read_curve_csv(tmp_path / "absent.csv", SPACE)
    with pytest.raises(DataError, match="Got none"):
        read_curve_csv(written(tmp_path, ""), SPACE)
    with pytest.raises(DataError, match="at least one architecture"):
        read_curve_csv(written(tmp_path, FILE.splitlines()[0]), SPACE)
    path = tmp_path / "cells.csv.gz"
    path.write_bytes(b"not gzip")
    with pytest.raises(CorruptFile, match="to be a CSV file"):
        read_curve_csv(path, SPACE)
