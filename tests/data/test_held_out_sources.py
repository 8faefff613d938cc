"""Validation and test examples from files, folders and arrays of their own, and tables split by a column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from polyarch.data import GroupSplit, ImageFiles, TableData, TimeSplit, load
from polyarch.data.image_folders import read_image_folder
from polyarch.data.sources import with_held_out
from polyarch.errors import DataError, InvalidInput


def visits(rows: int = 60, *, first: int = 0, kinds: int = 2) -> pd.DataFrame:
    """Visits of patients, three each, on successive days."""
    number = np.arange(first, first + rows)
    return pd.DataFrame(
        {
            "patient": [f"p{index // 3}" for index in number],
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(number, "D"),
            "weight": number * 0.5,
            "colour": np.array(["red", "blue"])[number % 2],
            "well": np.array(["no", "yes", "maybe"])[(number // 2) % kinds],
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    visits().to_csv(path, index=False)
    return path


def written(folder: Path, frame: pd.DataFrame, name: str = "more.csv") -> Path:
    frame.to_csv(folder / name, index=False)
    return folder / name


def inputs_of(part: Any) -> torch.Tensor:
    assert isinstance(part, TableData)
    return part.inputs


class TestTables:
    def test_a_column_of_groups(self, table: Path) -> None:
        data = load(table, groups="patient", target="well")
        assert [column.name for column in data.columns] == ["day", "weight", "colour"]
        patients = [set((inputs_of(part)[:, 1] / 0.5 // 3).tolist()) for part in (data.train, data.test)]
        assert not patients[0] & patients[1] and len(patients[0] | patients[1]) == 20
        assert len(data.test) == pytest.approx(12, abs=3) and isinstance(data.split, GroupSplit)
        assert data.test_origin == "whole groups by column 'patient', about 20 % of the examples"
        rest, valid = data.split.divide(data.train, 0.25, seed=7)
        patients = [set((inputs_of(part)[:, 1] / 0.5 // 3).tolist()) for part in (rest, valid, data.test)]
        assert sum(map(len, patients)) == 20 == len(set.union(*patients))

    def test_a_column_of_times(self, table: Path) -> None:
        data = load(table, times="day")
        assert [column.name for column in data.columns] == ["patient", "weight", "colour"]
        rest, valid = data.split.divide(data.train, 0.25, seed=7)
        weights = [inputs_of(part)[:, 1] for part in (rest, valid, data.test)]
        assert [len(part) for part in weights] == [36, 12, 12]
        assert weights[0].max() < weights[1].min() and weights[1].max() < weights[2].min()
        assert isinstance(data.split, TimeSplit) and data.test_origin == "the latest 20 % by column 'day'"

    def test_the_last_column_may_be_the_key(self, tmp_path: Path) -> None:
        path = written(tmp_path, visits()[["day", "weight", "well", "patient"]])
        assert load(path, groups="patient").target == "well"

    def test_files_of_their_own(self, table: Path, tmp_path: Path) -> None:
        valid = written(tmp_path, visits(9, first=60)[["well", "colour", "weight", "day", "patient"]])
        test = written(tmp_path, visits(12, first=69), "late.csv")
        data = load(table, valid=valid, test=test, times="day", target="well")
        assert data.valid is not None and (len(data.train), len(data.valid), len(data.test)) == (60, 9, 12)
        assert inputs_of(data.valid)[:, 1].tolist() == [number * 0.5 for number in range(60, 69)]
        assert data.valid.targets.tolist() == [(number // 2) % 2 for number in range(60, 69)]
        assert (data.valid_origin, data.test_origin) == (f"those of {valid}", f"those of {test}")
        grouped = load(table, valid=valid, groups="patient", target="well")
        assert len(grouped.train) + len(grouped.test) == 60 and isinstance(grouped.split, GroupSplit)

    def test_a_folder_with_all_three(self, table: Path, tmp_path: Path) -> None:
        folder = tmp_path / "sides"
        folder.mkdir()
        table.rename(folder / "train.csv")
        written(folder, visits(6, first=60), "valid.csv")
        assert (load(folder).valid, len(load(folder).test)) == (None, 6)  # a validation file alone is for testing
        data = load(folder, test=written(tmp_path, visits(9, first=66)))
        assert data.valid is not None and (len(data.valid), len(data.test)) == (6, 9)
        written(folder, visits(12, first=66), "test.csv")
        data = load(folder, times="day")
        assert data.valid is not None and (len(data.train), len(data.valid), len(data.test)) == (60, 6, 12)
        for name, role in (("valid", "validation"), ("test", "test")):
            with pytest.raises(InvalidInput, match=rf"without {role} examples to \w+ on .*\. sides has its own"):
                load(folder, **{name: folder / "train.csv"})  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("frame", "options", "message"),
        [
            (visits(9, kinds=3), {}, r"labels that occur in the training data in \S*more.csv\. Found 'maybe' in row 5"),
            (visits(9).assign(extra=1), {}, r"only columns of the training data in \S*more.csv\. Found 'extra'"),
            (visits(9).drop(columns="weight"), {}, r"Expected columns 'weight' in \S*more.csv"),
            (visits(9).drop(columns="well"), {}, r"Expected column 'well' with the labels in \S*more.csv"),
            (visits(9, first=57), {"groups": "patient"}, r"in \S*more.csv by column 'patient'\. Found 'p19' elsewhere"),
            (visits(9).drop(columns="patient"), {"groups": "patient"}, r"a column of \S*more.csv to split by"),
            (visits(9, first=59), {"times": "day"}, None),
            (visits(9, first=40), {"times": "day"}, r"\S*more.csv to be later than all training ex"),
        ],
    )
    def test_others_must_fit(
        self, frame: pd.DataFrame, options: dict[str, Any], message: str | None, table: Path, tmp_path: Path
    ) -> None:
        for role in ("valid", "test"):
            sources: dict[str, Any] = {role: written(tmp_path, frame)}
            if message is None:
                load(table, target="well", **options, **sources)
                continue
            with pytest.raises(InvalidInput, match=message):
                load(table, target="well", **options, **sources)

    def test_what_cannot_be_split(self, table: Path, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match=r"a column of \S*visits.csv to split by\. Got 'pateint'\. Did you mean"):
            load(table, groups="pateint")
        late = visits().assign(well=["no"] * 55 + ["yes"] * 5)
        with pytest.raises(DataError, match=r"by column 'day'\. Class 'yes' occurs only among"):
            load(written(tmp_path, late), times="day")
        bound = visits(6).assign(well=["no"] * 3 + ["yes"] * 3)
        with pytest.raises(DataError, match=r"groups to hold out by column 'patient'\. Each of the 2 has the only"):
            load(written(tmp_path, bound), groups="patient")
        for source in ("digits", tmp_path):
            with pytest.raises(InvalidInput, match="a table or arrays to split by groups or times"):
                load(source, groups="patient")


class TestArrays:
    inputs = np.arange(120, dtype=np.float32).reshape(60, 2)
    labels = np.array(["a", "b"])[np.arange(60) % 2]

    def test_groups_and_times(self, tmp_path: Path) -> None:
        groups = np.arange(60) // 4
        path = tmp_path / "points.npz"
        np.savez(path, x=self.inputs, y=self.labels, person=groups)
        for data in (load((self.inputs, self.labels), groups=groups), load(path, groups="person")):
            people = [set((part.inputs[:, 0] / 2 // 4).tolist()) for part in (data.train, data.test)]  # type: ignore[attr-defined]
            assert not people[0] & people[1]
        with pytest.raises(InvalidInput, match=r"an array of \S*points.npz to split by\. Got 'persons'"):
            load(path, groups="persons")
        pairs = TensorDataset(torch.from_numpy(self.inputs), torch.arange(60) % 2)
        late = load(pairs, times=-np.arange(60))
        assert late.test.inputs[:, 0].max() < late.train.inputs[:, 0].min()  # type: ignore[attr-defined]

    def test_pairs_of_their_own(self) -> None:
        data = load(
            (self.inputs, self.labels), valid=(self.inputs[:3], ["b", "b", "a"]), test=(self.inputs[5:7], ["a", "b"])
        )
        assert data.valid is not None and data.valid.targets.tolist() == [1, 1, 0]
        assert (len(data.train), data.test.targets.tolist()) == (60, [0, 1])
        for pair, message in (
            ((self.inputs[:3], ["a", "b", "c"]), r"only classes of the training data in arrays\. Found 'c'"),
            ((self.inputs[:3, :1], ["a", "b", "b"]), r"\(2,\) in arrays, of floats as in .*\. Got \(1,\) of floats"),
            ((self.inputs[:3].astype(np.uint8), ["a", "b", "b"]), "Got .* of bytes"),
        ):
            with pytest.raises(DataError, match=message):
                load((self.inputs, self.labels), valid=pair)
        with pytest.raises(InvalidInput, match=r"without test examples to test on a tuple\. digits has its own"):
            with_held_out(load("digits"), test=(self.inputs, self.labels))

    def test_numbered_classes_of_a_torch_data_set(self) -> None:
        pairs = TensorDataset(torch.from_numpy(self.inputs[:4]), torch.tensor([1, 1, 0, 1]))
        data = load((self.inputs, self.labels), valid=pairs)
        assert data.valid is not None and data.valid.targets.tolist() == [1, 1, 0, 1]

    def test_fractions_as_classes(self) -> None:
        """1.0 beside 0.5 is a fraction, alone it is a whole number."""
        labels = np.where(np.arange(60) % 2, 0.5, 1.0)
        data = load((self.inputs, labels), valid=(self.inputs[:4], np.array([1, 2, 1, 2.0]) / [1, 4, 1, 4]))
        assert data.valid is not None and data.valid.targets.tolist() == [1, 0, 1, 0]


def test_folders_of_images(tmp_path: Path) -> None:
    def fill(folder: Path, *names: str, side: int, mode: str) -> None:
        for value, name in enumerate(names):
            (folder / name).mkdir(parents=True)
            for number in range(4):
                Image.new(mode, (side, side), 50 * value + number).save(folder / name / f"{number}.png")

    fill(tmp_path / "photos", "cat", "dog", side=8, mode="RGB")
    fill(tmp_path / "more", "dog", "cat", side=12, mode="L")
    fill(tmp_path / "wild", "dog", "fox", side=8, mode="L")
    data = load(tmp_path / "photos", valid=tmp_path / "more")
    streamed = with_held_out(
        read_image_folder(tmp_path / "photos"),
        valid=read_image_folder(tmp_path / "more", test_share=None, resident_limit=0),
    )
    for part in (data.valid, streamed.valid):
        assert part is not None and part.input_shape == (3, 8, 8) and part.targets.tolist() == [0] * 4 + [1] * 4
    assert isinstance(streamed.valid, ImageFiles)
    with pytest.raises(DataError, match=r"only classes of the training data in wild\. Found 'fox'"):
        load(tmp_path / "photos", test=tmp_path / "wild")
    with pytest.raises(DataError, match=r"1 or more examples of every class"):
        empty = TensorDataset(torch.rand(6, 3, 4, 4), torch.arange(6) % 2)
        empty.classes = ["cat", "dog", "fox"]  # type: ignore[attr-defined]
        load(empty, test=empty)
