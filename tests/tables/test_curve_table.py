"""Tables of learning curves: what goes in comes out, in memory and on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polyarch.errors import CorruptFile, InvalidInput, MissingData, UnknownName
from polyarch.spaces import Architecture, Choice, Space, nb201_space
from polyarch.tables import Curves, CurveTable
from polyarch.tables.curve_table import write_arrays
from polyarch.testing import TruthContract

SPACE = Space("small", (Choice("first", ("a", "b", "c")), Choice("second", ("x", "y"))))
INDICES = [[0, 0], [2, 1], [1, 0]]
LOSSES = [[2.0, 1.5, np.nan], [2.5, 2.0, 1.25], [3.0, np.nan, np.nan]]


def small_table() -> CurveTable:
    curves = {"train_loss": LOSSES, "valid_accuracy": [[10.0, 20.0], [30.0, 40.0], [50.0, np.nan]]}
    return CurveTable("own", SPACE, INDICES, [80.0, 90.0, 85.5], curves, {"parameters": [100, 200, 300]})


class TestCurveTable(TruthContract):
    def make_truth(self) -> CurveTable:
        return small_table()

    def make_stranger(self) -> Architecture:
        return SPACE.architecture(["a", "y"])


class TestCurveTableOnDisk(TestCurveTable):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make_truth(self) -> CurveTable:
        small_table().save(self.folder / "table.npz")
        return CurveTable.load(self.folder / "table.npz")


def test_curves_come_without_padding() -> None:
    table = small_table()
    first, second, third = table.architectures()
    assert table.curve(first, "train_loss").tolist() == [2.0, 1.5]
    assert table.curve(second, "train_loss").tolist() == [2.5, 2.0, 1.25]
    assert table.curve(third).tolist() == [50.0]
    assert [table.accuracy(member) for member in (first, second, third)] == [80.0, 90.0, 85.5]
    assert [table.value(member, "parameters") for member in (first, second, third)] == [100, 200, 300]


def test_whole_columns_and_curves_come_in_the_order_of_the_rows() -> None:
    table = small_table()
    assert table.accuracies().tolist() == [80.0, 90.0, 85.5]
    assert table.column("parameters").tolist() == [100, 200, 300]
    assert np.array_equal(table.curves("train_loss"), LOSSES, equal_nan=True)
    table.accuracies()[0] = 0.0
    assert table.accuracies()[0] == 80.0  # a copy
    packed = Curves.packed([[0.5, np.nan], [0.25, 1.0]], 0.25)
    assert np.array_equal(packed.array(), [[0.5, np.nan], [0.25, 1.0]], equal_nan=True)
    for ask in (table.column, table.curves):
        with pytest.raises(UnknownName, match="nothing"):
            ask("nothing")


def test_unknown_names_are_sentences() -> None:
    table = small_table()
    member = table.architectures()[0]
    with pytest.raises(UnknownName, match="learning curve of own out of train_loss, valid_accuracy"):
        table.curve(member, "test_accuracy")
    with pytest.raises(UnknownName, match="Did you mean 'parameters'"):
        table.value(member, "parameter")
    with pytest.raises(InvalidInput, match=r"one of the 3 architectures of own .*Got a.y of space 'small'"):
        table.accuracy(SPACE.architecture(["a", "y"]))


def test_a_column_can_be_the_accuracy() -> None:
    table = small_table().by("parameters")
    assert [table.accuracy(member) for member in table.architectures()] == [100, 200, 300]
    assert table.name == "own:parameters" and table.measures == ("train_loss", "valid_accuracy")
    with pytest.raises(UnknownName, match="parameters"):
        small_table().by("seconds")


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"indices": [[0, 0], [2, 1], [0, 0]]}, r"Got a\|x twice"),
        ({"indices": [[0, 0], [2, 2], [1, 0]]}, r"below \[3, 2\]"),
        ({"indices": [[0, 0], [2, -1], [1, 0]]}, r"below \[3, 2\]"),
        ({"indices": [[0], [1], [2]]}, r"\(rows, 2\)"),
        ({"indices": [[0.0, 0.0], [2.0, 1.0], [1.0, 0.0]]}, "whole numbers"),
        ({"accuracies": [1.0, 2.0]}, "accuracies to have 3 numbers"),
        ({"columns": {"parameters": [1.0]}}, "parameters to have 3 numbers"),
        ({"curves": {"train_loss": LOSSES[:2]}}, "3 curves of train_loss. Got 2"),
        ({"curves": {"train_loss": [1.0, 2.0, 3.0]}}, "shape"),
        ({"curves": {"train_loss": [[1.0, np.nan, 2.0]] * 3}}, "without gaps"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], sentence: str) -> None:
    parts: dict[str, Any] = {"indices": INDICES, "accuracies": [1.0, 2.0, 3.0], "curves": {}, "columns": {}}
    with pytest.raises(InvalidInput, match=sentence):
        CurveTable("own", SPACE, **{**parts, **changed})


@st.composite
def tables(draw: st.DrawFn) -> CurveTable:
    """Any space, any members, curves of any lengths in both forms."""
    texts = st.text(st.characters(codec="utf-8", exclude_characters="|"), min_size=1, max_size=4)
    names = draw(st.lists(texts, min_size=1, max_size=3, unique=True))
    options = st.lists(texts, min_size=1, max_size=4, unique=True).map(tuple)
    space = Space(draw(texts), tuple(Choice(name, draw(options)) for name in names))
    members = st.tuples(*(st.integers(0, len(choice) - 1) for choice in space.choices))
    indices = draw(st.lists(members, min_size=1, max_size=6, unique=True))
    numbers = st.floats(-1e6, 1e6, width=32)
    curves: dict[str, Curves | NDArray[np.float64]] = {
        "train_loss": padded([draw(st.lists(numbers, max_size=4)) for _ in indices]),
        "valid_accuracy": Curves.packed(
            padded([draw(st.lists(st.floats(0, 100), max_size=4)) for _ in indices]), 0.002
        ),
    }
    accuracies = [draw(st.floats(0, 100)) for _ in indices]
    return CurveTable(draw(texts), space, indices, accuracies, curves, {draw(texts): range(len(indices))})


def padded(rows: list[list[float]]) -> NDArray[np.float64]:
    values = np.full((len(rows), max(map(len, rows))), np.nan)
    for row, numbers in enumerate(rows):
        values[row, : len(numbers)] = numbers
    return values


@given(table=tables())
def test_saved_tables_come_back(table: CurveTable, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("tables") / "deeper" / "table.npz"
    table.save(path)
    loaded = CurveTable.load(path)
    assert (loaded.name, loaded.space, loaded.measures) == (table.name, table.space, table.measures)
    assert loaded.columns == table.columns and loaded.architectures() == table.architectures()
    for member in table.architectures():
        assert loaded.accuracy(member) == table.accuracy(member)
        assert all(loaded.value(member, column) == table.value(member, column) for column in table.columns)
        for measure in table.measures:
            np.testing.assert_array_equal(loaded.curve(member, measure), table.curve(member, measure))


@given(values=st.lists(st.lists(st.floats(0, 131), min_size=3, max_size=3), min_size=1, max_size=5))
def test_packing_rounds_by_half_a_step(values: list[list[float]]) -> None:
    curves = Curves.packed(values, 0.002)
    assert curves.values.nbytes == 2 * 3 * len(values)
    for row, expected in enumerate(values):
        np.testing.assert_allclose(curves.row(row), expected, rtol=0, atol=0.001 + 1e-9)


@pytest.mark.parametrize("value", [-0.1, 131.07, 1e9])
def test_what_cannot_be_packed_is_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match=r"to pack by 0\.002"):
        Curves.packed([[1.0, value]], 0.002)


def test_published_spaces_keep_their_canonical_form(tmp_path: Path) -> None:
    space = nb201_space()
    CurveTable("cells", space, [[1] * 6, [0] * 6], [1.0, 2.0]).save(tmp_path / "table.npz")
    loaded = CurveTable.load(tmp_path / "table.npz")
    assert loaded.space.canonical is space.canonical
    assert loaded.architectures()[1].canonical() == space.architecture(["none"] * 6).canonical() != "none|none"


def test_a_space_can_be_given_and_must_fit(tmp_path: Path) -> None:
    small_table().save(tmp_path / "table.npz")
    same = Space(SPACE.name, SPACE.choices, canonical=lambda architecture: "one")
    assert CurveTable.load(tmp_path / "table.npz", same).architectures()[0].canonical() == "one"
    with pytest.raises(InvalidInput, match=r"about space 'nb201'\. Found space 'small'"):
        CurveTable.load(tmp_path / "table.npz", nb201_space())


def test_absent_and_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    with pytest.raises(MissingData, match="no such file"):
        CurveTable.load(path)
    small_table().save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"no zip", whole[:-30], whole[: len(whole) // 2], whole[:200] + b"\0" * 60 + whole[260:]):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFile, match="to be a table of learning curves"):
            CurveTable.load(path)


def rewritten(path: Path, header: dict[str, Any] | None = None, **changed: Any) -> None:
    small_table().save(path)
    with np.load(path) as file:
        arrays = dict(file)
    if header:
        content = {**json.loads(arrays["header"].tobytes()), **header}
        arrays["header"] = np.frombuffer(json.dumps(content).encode(), dtype=np.uint8)
    write_arrays(path, {**arrays, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"header": {"format": 2}},
        {"header": {"choices": [["first", ["a", "a"]]]}},
        {"header": {"steps": {"train_loss": 0.1}}},
        {"header": {"columns": ["absent"]}},
        {"indices": np.array([[9, 9]] * 3)},
        {"accuracies": np.zeros(2)},
        {"curve train_loss": np.zeros((3, 2), dtype=np.int8)},
    ],
)
def test_files_that_contradict_themselves(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = tmp_path / "table.npz"
    rewritten(path)
    CurveTable.load(path)  # the way of writing is not what is wrong
    rewritten(path, **changed)
    with pytest.raises(CorruptFile, match=r"to be a table of learning curves\. Found: "):
        CurveTable.load(path)


def test_pickled_objects_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    np.savez(path, header=np.array([{"format": 1}], dtype=object))
    with pytest.raises(CorruptFile, match="allow_pickle"):
        CurveTable.load(path)


def test_larger_indices_have_room() -> None:
    space = Space("wide", (Choice("one", tuple(map(str, range(300)))), Choice("two", ("x", "y"))))
    table = CurveTable("wide", space, [[row, row % 2] for row in range(300)], np.arange(300) / 3)
    assert all(table.accuracy(member) == pytest.approx(member["one"] / 3) for member in table.architectures())
    assert space.architecture(["7", "x"]) not in table
