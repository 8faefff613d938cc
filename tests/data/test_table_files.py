from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from table_examples import PETS, written
from torch import Tensor

from polyarch.data import Column, Dataset, TableData, TableEncoding, encode_rows, load, read_frame, resident
from polyarch.data.columns import MISSING_WORDS
from polyarch.data.examples import stratified_indices
from polyarch.errors import DataError, InvalidInput


def table(path: Path, **options: Any) -> Dataset:
    return load(path, **options)


def whole(data: Dataset) -> Tensor:
    """All rows, training first."""
    return torch.cat([resident(data.train).inputs, resident(data.test).inputs])


class TestReading:
    @pytest.mark.parametrize("name", ["pets.csv", "pets.csv.gz", "PETS.CSV"])
    def test_rows_columns_and_classes(self, tmp_path: Path, name: str) -> None:
        data = table(written(tmp_path, PETS, name), test_share=0.34)
        assert (data.name, data.class_names) == (name, ("cat", "dog"))
        assert (len(data.train), len(data.test)) == (4, 2)
        assert [column.name for column in data.columns] == ["name", "weight", "colour"]
        assert data.columns[1] == Column("weight")
        assert (data.is_table, data.is_image, data.is_bytes) == (True, False, False)
        assert isinstance(data.train, TableData)
        assert isinstance(data.preprocessing(data.train), TableEncoding)

    def test_parquet_gives_the_same_as_csv(self, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        path = written(tmp_path, PETS)
        pd.read_csv(path).to_parquet(tmp_path / "pets.parquet")
        one, other = table(path), table(tmp_path / "pets.parquet")
        assert (one.columns, one.class_names) == (other.columns, other.class_names)
        torch.testing.assert_close(whole(one), whole(other), equal_nan=True, rtol=0, atol=0)

    @pytest.mark.parametrize("separator", [";", "\t", "|"])
    def test_other_separators(self, tmp_path: Path, separator: str) -> None:
        data = table(written(tmp_path, PETS.replace(",", separator)))
        assert data.columns == table(written(tmp_path, PETS, "b.csv")).columns

    def test_byte_order_mark_spaces_quotes_and_blank_lines(self, tmp_path: Path) -> None:
        text = '\ufeffcolour, kind\n"red, dark", a\n\n blue, b\nblue, a\nblue, a \nblue, b\n"red, dark", b\n'
        data = table(written(tmp_path, text))
        assert data.class_names == ("a", "b")
        assert sorted(data.columns[0].categories or ()) == ["blue", "red, dark"]

    def test_train_and_test_file(self, tmp_path: Path) -> None:
        written(tmp_path, PETS, "train.csv")
        written(tmp_path, "kind,colour,weight,name\ndog,green,7,Rex\ncat,brown,,Zoe\n", "test.csv.gz")
        data = table(tmp_path)
        assert (len(data.train), len(data.test), data.name) == (6, 2, tmp_path.name)
        test = resident(data.test)
        assert test.targets.tolist() == [1, 0]
        assert test.inputs[0, 1:].tolist() == [7, -1]
        assert test.inputs[1, [0, 2]].tolist() == [-1, 0]
        assert test.inputs[1, 1].isnan()

    def test_train_file_alone_is_split(self, tmp_path: Path) -> None:
        written(tmp_path, PETS, "train.csv")
        data = table(tmp_path)
        assert (len(data.train), len(data.test)) == (4, 2)

    def test_dates_of_parquet(self, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        days = pd.date_range("2020-01-01", periods=6, freq="D")
        pd.DataFrame({"when": days, "y": [0, 1] * 3}).to_parquet(tmp_path / "t.parquet")
        data = table(tmp_path / "t.parquet")
        assert data.columns == (Column("when"),)
        assert whole(data).min() == pytest.approx(days[0].timestamp(), rel=1e-7)

    def test_dates_of_csv_are_texts(self, tmp_path: Path) -> None:
        rows = "".join(f"2020-01-0{day % 3 + 1},{day % 2}\n" for day in range(8))
        assert table(written(tmp_path, f"when,y\n{rows}")).columns[0].categories is not None


class TestTarget:
    ROWS = "".join(f"{row},{row % 2},{row % 3},{row % 2}\n" for row in range(12))

    @pytest.mark.parametrize("name", ["label", "Target", "CLASS", "y"])
    def test_by_its_name(self, tmp_path: Path, name: str) -> None:
        data = table(written(tmp_path, f"a,{name},b,c\n{self.ROWS}"))
        assert [column.name for column in data.columns] == ["a", "b", "c"]

    def test_else_the_last_column(self, tmp_path: Path) -> None:
        data = table(written(tmp_path, f"a,b,c,d\n{self.ROWS}"))
        assert [column.name for column in data.columns] == ["a", "b", "c"]

    def test_as_asked(self, tmp_path: Path) -> None:
        data = table(written(tmp_path, f"a,label,c,y\n{self.ROWS}"), target="c")
        assert data.class_names == ("0", "1", "2")

    def test_two_candidates(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match=r"Found 'label', 'y': choose with --target"):
            table(written(tmp_path, f"a,label,c,y\n{self.ROWS}"))

    def test_unknown_column(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match=r"columns of \S*pets\.csv\. Got 'weigth'\. Did you mean 'weight'\?"):
            table(written(tmp_path, PETS), target="weigth")

    @pytest.mark.parametrize(
        ("labels", "names"),
        [
            (["10", "9", "2"], ("2", "9", "10")),
            (["1.0", "2.0", "3.0"], ("1", "2", "3")),
            (["b", "a", "10"], ("10", "a", "b")),
            (["True", "False"], ("False", "True")),
            (["0.5", "1.5"], ("0.5", "1.5")),
        ],
    )
    def test_names_of_classes(self, tmp_path: Path, labels: list[str], names: tuple[str, ...]) -> None:
        rows = "".join(f"{row},{labels[row % len(labels)]}\n" for row in range(12))
        assert table(written(tmp_path, f"a,y\n{rows}")).class_names == names


class TestColumns:
    def test_categories_by_frequency_then_name(self, tmp_path: Path) -> None:
        """The training rows of class x hold c twice and the others once, whichever row is for testing."""
        values = ["c"] * 30 + ["b"] * 10 + ["a"] * 10
        rows = "".join(f"{value},{number % 2}\n" for number, value in enumerate(values))
        (column,) = table(written(tmp_path, f"v,y\n{rows}")).columns
        assert column.categories is not None
        assert column.categories[0] == "c"
        assert set(column.categories) == {"a", "b", "c"}

    def test_rare_categories_are_unknown(self, tmp_path: Path) -> None:
        values = [f"v{number % 100:02}" for number in range(400)] + ["v00", "v01"] * 20
        rows = "".join(f"{value},{number % 2}\n" for number, value in enumerate(values))
        data = table(written(tmp_path, f"v,y\n{rows}"))
        (column,) = data.columns
        assert column.categories is not None
        assert len(column.categories) == 64
        assert set(column.categories[:2]) == {"v00", "v01"}
        assert data.notes == ("Column 'v' has 100 categories: all but the 64 most frequent count as unknown.",)
        assert (whole(data) == -1).any()

    def test_columns_that_never_vary_are_left_out(self, tmp_path: Path) -> None:
        rows = "".join(f"{row},7,same,,{'' if row % 2 else 'x'},{row % 2}\n" for row in range(10))
        data = table(written(tmp_path, f"a,b,c,d,e,y\n{rows}"))
        assert [column.name for column in data.columns] == ["a", "e"]  # whether e is there varies
        assert [note.split("'")[1] for note in data.notes] == ["b", "c", "d"]

    def test_numbers_of_rows_are_left_out(self, tmp_path: Path) -> None:
        path = tmp_path / "t.csv"
        pd.DataFrame({"a": range(10), "y": [0, 1] * 5}).to_csv(path)
        data = table(path)
        assert [column.name for column in data.columns] == ["a"]
        assert data.notes == ("Column 0 is left out: it has no name.",)

    def test_text_in_test_rows_makes_a_column_categorical(self, tmp_path: Path) -> None:
        rows = [f"{row},{row % 2}" for row in range(20)]
        targets = torch.arange(20) % 2
        held_out = int(stratified_indices(targets, 0.2, seed=0)[1][0])
        rows[held_out] = f"many,{held_out % 2}"
        data = table(written(tmp_path, "a,y\n" + "\n".join(rows) + "\n"))
        assert data.columns[0].categories is not None
        assert "many" not in data.columns[0].categories


cell_numbers = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.none()
words = st.text("abcXYZ ,;\"'äß0", min_size=1, max_size=6).map(str.strip)
cell_words = words.filter(lambda word: word not in MISSING_WORDS and not word.isdigit()) | st.none()


@settings(max_examples=60)
@given(st.data())
def test_random_table_comes_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.booleans(), min_size=1, max_size=4), "whether each column holds numbers")
    count = data.draw(st.integers(6, 16), "rows")
    names = [f"column {number}" for number in range(len(kinds))]
    cells = [
        data.draw(st.lists(cell_numbers if kind else cell_words, min_size=count, max_size=count)) for kind in kinds
    ]
    labels = ["yes" if row % 2 else "no" for row in range(count)]
    path = tmp_path_factory.mktemp("table") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "label"])
        writer.writerows(
            ["" if c is None else c for c in row] + [label] for *row, label in zip(*cells, labels, strict=True)
        )
    targets = torch.tensor([row % 2 for row in range(count)])
    train, test = stratified_indices(targets, 0.2, seed=0)
    varying = [
        name for name, column in zip(names, cells, strict=True) if len({column[row] for row in train.tolist()}) > 1
    ]
    if not varying:
        with pytest.raises(DataError, match="that varies"):
            load(path)
        return
    loaded = load(path)
    assert [column.name for column in loaded.columns] == varying
    assert torch.equal(loaded.train.targets, targets[train])
    assert torch.equal(loaded.test.targets, targets[test])
    rows = torch.empty(count, len(varying))
    rows[train], rows[test] = resident(loaded.train).inputs, resident(loaded.test).inputs
    for position, column in enumerate(loaded.columns):
        for row, cell in enumerate(cells[names.index(column.name)]):
            value = rows[row, position].item()
            if cell is None:
                assert math.isnan(value)
            elif column.categories is None:
                assert value == float(cell)
            elif value == -1:
                assert row in test.tolist()
            else:
                assert column.categories[int(value)] == cell
    again = encode_rows(read_frame(path), loaded.columns)
    torch.testing.assert_close(again, rows, equal_nan=True, rtol=0, atol=0)


class TestRealTables:
    @pytest.mark.parametrize(
        ("name", "examples", "columns", "features", "classes"),
        [
            ("iris", 150, 4, 4, 3),
            ("splice", 3190, 60, 287, 3),
            ("wdbc", 569, 30, 30, 2),
            ("optdigits", 5620, 62, 62, 10),
        ],
    )
    def test_sizes(self, data_root: Path, name: str, examples: int, columns: int, features: int, classes: int) -> None:
        path = data_root / "tabular" / f"{name}.csv.gz"
        if not path.is_file():
            pytest.skip(f"needs {path}")
        data = load(path)
        assert (len(data.train) + len(data.test), len(data.columns), data.classes) == (examples, columns, classes)
        encoding = data.preprocessing(data.train)
        assert encoding.output_shape(data.input_shape) == (features,)
        assert encoding(resident(data.train).inputs).isfinite().all()
