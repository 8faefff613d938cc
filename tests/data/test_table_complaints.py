from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from table_examples import PETS, written

from polyarch.data import load, read_frame
from polyarch.errors import CorruptFile, DataError, MissingData


class TestComplaints:
    @pytest.mark.parametrize(
        ("text", "kind", "complaint"),
        [
            ("", CorruptFile, r"line of column names\. Found an empty file"),
            ("a,y\n", DataError, r"rows of two columns or more in .* Found 0 x 2 \(rows x columns\)"),
            ("y\n1\n2\n", DataError, r"Found 2 x 1 \(rows x columns\)"),
            ("a,b,a\n1,2,3\n", DataError, r"distinct column names in .* Found 'a' twice"),
            ("a,y\n1,0\n2,1,5\n", CorruptFile, r"2 cells per row of .* Found 3 in row 2"),
            ("a,y\n1,0,7\n2,1,5\n", CorruptFile, r"Found 3 in row 1"),
            ("a,y\n1,0\n\n2\n", CorruptFile, r"Found 1 in row 2"),
            ("a,y\n" + "1,0\n2,1\n" * 3 + "3,\n", DataError, r"a label in column 'y' of .* Found none in row 7"),
            ("a,y\n" + "1,0\n2,0\n" * 3, DataError, r"two or more classes in column 'y' of .* Found only '0'"),
            ("a,y\n" + "1,0\n2,1\n" * 3 + "4,2\n5,2\n", DataError, r"3 or more examples.*Found 2 of class '2'"),
            ("a,y\n" + "1,0\n2,1\n" * 3 + "inf,0\n", DataError, r"finite numbers in column 'a' of .* row 7"),
            ("a,y\n" + "1,0\n2,1\n" * 3 + "1e60,0\n", DataError, r"numbers below 3\.4e38 in column 'a' of .* row 7"),
            ("a,y\n" + "1,0\n1,1\n" * 3, DataError, r"a column besides 'y' that varies in .* Found none"),
        ],
    )
    def test_file_and_place_are_named(self, tmp_path: Path, text: str, kind: type[Exception], complaint: str) -> None:
        with pytest.raises(kind, match=complaint) as caught:
            load(written(tmp_path, text))
        assert "pets.csv" in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_regression(self, tmp_path: Path) -> None:
        rows = "".join(f"{row},{row / 7}\n" for row in range(200))
        with pytest.raises(DataError, match=r"column 'y' of .* Found 200 different numbers: a task for regression"):
            load(written(tmp_path, f"a,y\n{rows}"), task="classification")

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("t.csv", b"a,y\n1,caf\xe9\n"),
            ("t.csv", b"\xff\xfe\x00\x01" * 50),
            ("t.csv.gz", b"a,y\n1,2\n"),
            ("t.csv.gz", gzip.compress(b"a,y\n1,2\n" * 500, mtime=0)[:-20]),
            ("t.csv", b'a,y\n"1,2\n3,4\n'),
            ("t.parquet", b"PAR1 and no more"),
            ("t.parquet", b""),
        ],
    )
    def test_damaged_files_name_themselves(self, tmp_path: Path, name: str, content: bytes) -> None:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(CorruptFile, match=name) as caught:
            load(path)
        assert "\n" not in str(caught.value)

    def test_label_that_training_lacks(self, tmp_path: Path) -> None:
        written(tmp_path, PETS, "train.csv")
        written(tmp_path, PETS.replace("Mia,5,white,cat", "Mia,5,white,emu"), "test.csv")
        with pytest.raises(
            DataError, match=r"only labels that occur in the training data in \S*test\.csv\. Found 'emu' in row 6"
        ):
            load(tmp_path)

    def test_test_file_without_labels(self, tmp_path: Path) -> None:
        written(tmp_path, PETS, "train.csv")
        written(tmp_path, "name,weight,colour\nRex,1,red\n", "test.csv")
        with pytest.raises(DataError, match=r"column 'kind' with the labels in \S*test\.csv"):
            load(tmp_path)

    def test_test_file_without_a_column(self, tmp_path: Path) -> None:
        written(tmp_path, PETS, "train.csv")
        written(tmp_path, "name,colour,kind\nRex,red,dog\n", "test.csv")
        with pytest.raises(DataError, match=r"columns 'weight' in \S*test\.csv"):
            load(tmp_path)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(MissingData, match=r"a table at \S*none\.csv"):
            read_frame(tmp_path / "none.csv")

    def test_a_table_has_no_size(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="images to resize"):
            load(written(tmp_path, PETS), size=8)


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        (["abc"], ["Column 'a': row 12 'abc' is no number; taken as categories."]),
        (["abc", "?", "1,5"], ["Column 'a': row 12 'abc' is no number, and 1 more of its cells are none; taken as"]),
        (["b"] * 30, []),
    ],
)
def test_a_bad_cell_in_a_column_of_numbers(tmp_path: Path, words: list[str], noted: list[str]) -> None:
    cells = [str(row / 8) for row in range(60)]
    cells[11 : 11 + len(words)] = words
    rows = "".join(f'"{cell}",{row % 2}\n' for row, cell in enumerate(cells))
    found = load(written(tmp_path, f"a,y\n{rows}"))
    assert found.columns[0].categories is not None
    assert [note for note, start in zip(found.notes, noted, strict=False) if note.startswith(start)] == [
        note for note in found.notes if "no number" in note
    ]
    assert len([note for note in found.notes if "no number" in note]) == len(noted)
