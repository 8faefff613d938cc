from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from polyarch.data import Column, ImageFiles, load, resident
from polyarch.data.huggingface import read_huggingface_folder
from polyarch.errors import CorruptFile, DataError, InvalidInput, MissingExtra

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (12, 6, 6, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def datasets() -> Iterator[Any]:
    module = pytest.importorskip("datasets")
    module.disable_progress_bars()
    yield module
    module.enable_progress_bars()


def image_set(datasets: Any, rows: range, *, named: bool = True) -> Any:
    label = datasets.ClassLabel(names=["dog", "cat"]) if named else datasets.Value("string")
    features = datasets.Features({"image": datasets.Image(), "label": label})
    labels = [row % 2 if named else ["x", "y"][row % 2] for row in rows]
    return datasets.Dataset.from_dict(
        {"image": [Image.fromarray(PIXELS[row]) for row in rows], "label": labels}, features=features
    )


class TestImages:
    def test_one_split(self, datasets: Any, tmp_path: Path) -> None:
        image_set(datasets, range(12)).save_to_disk(tmp_path / "pets")
        data = load(tmp_path / "pets")
        assert (data.name, data.class_names, data.input_shape) == ("pets", ("dog", "cat"), (3, 6, 6))
        assert (len(data.train), len(data.test)) == (10, 2)
        expected = load((PIXELS, np.arange(12) % 2))
        assert torch.equal(resident(data.train).inputs, resident(expected.train).inputs)

    @pytest.mark.parametrize("side", ["test", "validation"])
    def test_two_splits_also_from_disk(self, datasets: Any, tmp_path: Path, side: str) -> None:
        sides = {"train": image_set(datasets, range(8)), side: image_set(datasets, range(8, 12))}
        datasets.DatasetDict(sides).save_to_disk(tmp_path / "pets")
        whole = load(tmp_path / "pets")
        assert torch.equal(resident(whole.test).inputs, torch.from_numpy(PIXELS[8:].transpose(0, 3, 1, 2).copy()))
        streamed = read_huggingface_folder(tmp_path / "pets", resident_limit=10)
        assert isinstance(streamed.train, ImageFiles)
        assert torch.equal(resident(streamed.train).inputs, resident(whole.train).inputs)
        copy = pickle.loads(pickle.dumps(streamed.test))
        assert torch.equal(resident(copy).inputs, resident(whole.test).inputs)

    def test_three_splits(self, datasets: Any, tmp_path: Path) -> None:
        rows = {"train": range(6), "validation": range(6, 8), "test": range(8, 12)}
        sides = {side: image_set(datasets, numbers) for side, numbers in rows.items()}
        datasets.DatasetDict(sides).save_to_disk(tmp_path / "pets")
        data = load(tmp_path / "pets")
        assert data.valid is not None and data.valid_origin == "those of the source"
        assert [len(part) for part in (data.train, data.valid, data.test)] == [6, 2, 4]
        assert torch.equal(resident(data.valid).inputs, torch.from_numpy(PIXELS[6:8].transpose(0, 3, 1, 2).copy()))

    def test_groups_and_other_folders(self, datasets: Any, tmp_path: Path) -> None:
        image_set(datasets, range(12)).add_column("owner", [row // 2 for row in range(12)]).save_to_disk(
            tmp_path / "pets"
        )
        image_set(datasets, range(2)).save_to_disk(tmp_path / "more")
        data = load(tmp_path / "pets", groups="owner", valid=tmp_path / "more")
        assert len(data.test) % 2 == 0 and data.test.targets.bincount().tolist() == [len(data.test) // 2] * 2
        assert data.valid is not None and data.valid.targets.tolist() == [0, 1]
        with pytest.raises(InvalidInput, match=r"a column of \S*pets to split by\. Got 'owners'\. Did you mean"):
            load(tmp_path / "pets", groups="owners")

    def test_labels_without_names_and_size(self, datasets: Any, tmp_path: Path) -> None:
        image_set(datasets, range(12), named=False).save_to_disk(tmp_path / "pets")
        data = load(tmp_path / "pets", size=3)
        assert (data.class_names, data.input_shape) == (("x", "y"), (3, 3, 3))

    def test_row_without_an_image(self, datasets: Any, tmp_path: Path) -> None:
        features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
        images = [Image.fromarray(PIXELS[0])] * 6 + [None]
        rows = {"image": images, "label": [0, 1] * 3 + [0]}
        datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "pets")
        with pytest.raises(DataError, match=r"an image in row 7 of \S*pets"):
            load(tmp_path / "pets")

    def test_hidden_labels(self, datasets: Any, tmp_path: Path) -> None:
        test = image_set(datasets, range(2)).map(lambda row: {"label": -1}, batched=False)
        datasets.DatasetDict({"train": image_set(datasets, range(8)), "test": test}).save_to_disk(tmp_path / "pets")
        with pytest.raises(
            DataError, match=r"labels that occur in the training data in column 'label'.* Found '-1' in example 0"
        ):
            load(tmp_path / "pets")


class TestTables:
    def rows(self, datasets: Any, count: int = 12) -> Any:
        features = datasets.Features(
            {
                "age": datasets.Value("float64"),
                "colour": datasets.ClassLabel(names=["red", "blue"]),
                "word": datasets.Value("string"),
                "label": datasets.ClassLabel(names=["no", "yes"]),
            }
        )
        content = {
            "age": [None if row == 3 else row / 2 for row in range(count)],
            "colour": [row // 2 % 2 for row in range(count)],
            "word": ["a" if row % 3 else "b" for row in range(count)],
            "label": [row % 2 for row in range(count)],
        }
        return datasets.Dataset.from_dict(content, features=features)

    def test_columns(self, datasets: Any, tmp_path: Path) -> None:
        self.rows(datasets).save_to_disk(tmp_path / "table")
        data = load(tmp_path / "table")
        assert data.class_names == ("no", "yes")
        assert data.columns[0] == Column("age")
        assert {*(data.columns[1].categories or ())} == {"red", "blue"}
        assert {*(data.columns[2].categories or ())} == {"a", "b"}
        assert resident(data.train).inputs.isnan().sum() + resident(data.test).inputs.isnan().sum() == 1

    def test_target_and_splits(self, datasets: Any, tmp_path: Path) -> None:
        sides = {"train": self.rows(datasets), "test": self.rows(datasets, 4)}
        datasets.DatasetDict(sides).save_to_disk(tmp_path / "table")
        data = load(tmp_path / "table", target="word")
        assert (data.class_names, len(data.train), len(data.test)) == (("a", "b"), 12, 4)

    def test_a_table_has_no_size(self, datasets: Any, tmp_path: Path) -> None:
        self.rows(datasets).save_to_disk(tmp_path / "table")
        with pytest.raises(InvalidInput, match=r"images for size 8\. Found a table"):
            load(tmp_path / "table", size=8)


def test_splits_without_training(datasets: Any, tmp_path: Path) -> None:
    sides = {"dev": image_set(datasets, range(4)), "other": image_set(datasets, range(4))}
    datasets.DatasetDict(sides).save_to_disk(tmp_path / "pets")
    with pytest.raises(DataError, match=r"a split 'train' in \S*pets\. Found dev, other"):
        load(tmp_path / "pets")


def test_damaged_folder(datasets: Any, tmp_path: Path) -> None:
    image_set(datasets, range(4)).save_to_disk(tmp_path / "pets")
    for path in (tmp_path / "pets").glob("*.arrow"):
        path.write_bytes(b"nothing")
    with pytest.raises(CorruptFile, match=r"a Hugging Face folder at \S*pets") as caught:
        load(tmp_path / "pets")
    assert "\n" not in str(caught.value)


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dataset_dict.json").write_text("{}")
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"Reading a Hugging Face dataset folder needs .*polyarch\[huggingface\]"):
        load(tmp_path)
