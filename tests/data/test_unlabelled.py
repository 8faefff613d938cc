"""Examples without labels: every source, in the form of the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from polyarch.data import Dataset, Examples, ImageFiles, TensorData, load, resident, unlabelled
from polyarch.data.unlabelled import unlabelled_examples
from polyarch.errors import CorruptFile, DataError, InvalidInput, PolyarchError


def images(channels: int = 3, side: int = 6, *, floats: bool = False) -> Dataset:
    values = torch.randint(0, 256, (20, channels, side, side), dtype=torch.uint8)
    data = TensorData(values.float() / 255 if floats else values, torch.arange(20) % 2, 2)
    return Dataset("images", data, data.subset(range(4)), ("a", "b"))


def save(path: Path, value: int, size: tuple[int, int] = (9, 12)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, value, value)).save(path)


def first_values(examples: Examples) -> list[float]:
    return [round(float(one.flatten()[0]), 3) for one in resident(examples).inputs]


def test_a_folder_however_it_is_sorted(tmp_path: Path) -> None:
    for place, value in (("b/2.png", 20), ("a/1.png", 10), ("3.png", 0)):
        save(tmp_path / "all" / place, value)
    save(tmp_path / "all" / ".hidden" / "4.png", 200)
    found = unlabelled_examples(str(tmp_path / "all"), images())
    assert resident(found).inputs.shape == (3, 3, 6, 6) and resident(found).inputs.dtype == torch.uint8
    assert first_values(found) == [0, 10, 20] and found.targets.eq(0).all() and found.classes == 2
    grey = unlabelled_examples(tmp_path / "all", images(1, floats=True))
    assert grey.input_shape == (1, 6, 6) and first_values(grey) == [0, 0.039, 0.078]


def test_test_images_are_left_alone(tmp_path: Path) -> None:
    for place, value in (("train/a/1.png", 10), ("train/b/1.png", 20), ("test/a/1.png", 30)):
        save(tmp_path / place, value)
    assert first_values(unlabelled_examples(tmp_path, images())) == [10, 20]


def test_too_many_for_memory_stay_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        save(tmp_path / f"{number}.png", number)
    monkeypatch.setattr(unlabelled, "fits_in_memory", lambda some: False)
    found = unlabelled_examples(tmp_path, images())
    assert isinstance(found, ImageFiles) and first_values(found) == [0, 1, 2]
    assert isinstance(unlabelled_examples(tmp_path, images(floats=True)), TensorData)  # bytes are no floats


def test_named_sets_and_data_sets_give_their_training_side() -> None:
    digits = load("digits")
    found = unlabelled_examples("digits", images(3, 12))
    assert resident(found).inputs.shape == (len(digits.train), 3, 12, 12)
    assert resident(found).inputs.dtype == torch.uint8
    same = unlabelled_examples(digits, digits)
    assert torch.equal(resident(same).inputs, resident(digits.train).inputs)


@pytest.mark.parametrize("kind", ["numpy", "torch", "pair", "npz"])
def test_arrays(kind: str, tmp_path: Path) -> None:
    values = np.linspace(0, 1, 30 * 36, dtype=np.float32).reshape(30, 6, 6)
    np.savez(tmp_path / "some.npz", x=values, y=np.arange(30))
    sources = {
        "numpy": values,
        "torch": torch.from_numpy(values).unsqueeze(1),
        "pair": (values, np.arange(30) % 3),
        "npz": tmp_path / "some.npz",
    }
    found = resident(unlabelled_examples(sources[kind], images(1, floats=True))).inputs
    if kind == "pair":  # a part of it is a test side
        assert found.shape == (24, 1, 6, 6)
    else:
        assert torch.equal(found, torch.from_numpy(values).unsqueeze(1))


def test_rows_of_a_table(tmp_path: Path) -> None:
    rows = pd.DataFrame({"size": [1.0, 2.0, 3.0] * 10, "kind": list("aab") * 10, "label": list("xyx") * 10})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    more = pd.DataFrame({"other": [0, 0, 0], " kind": ["b", "new", None], "size": [7.0, None, 9.0]})
    more.to_csv(tmp_path / "more.csv", index=False)
    data = load(str(tmp_path / "rows.csv"), target="label")
    found = resident(unlabelled_examples(tmp_path / "more.csv", data)).inputs
    expected = torch.tensor([[7.0, 1.0], [torch.nan, -1.0], [9.0, torch.nan]])
    assert torch.equal(found.nan_to_num(-9), expected.nan_to_num(-9))
    with pytest.raises(DataError, match="columns 'size'"):
        unlabelled_examples(_written(tmp_path, pd.DataFrame({"kind": ["a", "b"]})), data)


def _written(folder: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(folder / "wrong.csv", index=False)
    return folder / "wrong.csv"


def test_what_does_not_fit_is_one_sentence(tmp_path: Path) -> None:
    table = load((np.zeros((20, 3), dtype=np.float32), np.arange(20) % 2))
    save(tmp_path / "one" / "1.png", 0)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.npz").write_text("no arrays")
    for source, data, words, kind in (
        (tmp_path / "one", images(), "Expected 2 or more examples without labels. Found 1", DataError),
        (tmp_path / "empty", images(), "Expected images in", DataError),
        (tmp_path / "one", table, "Found a folder", DataError),
        (np.zeros((4, 5)), table, r"Expected examples of shape \(3,\) without labels. Got \(5,\)", DataError),
        (np.zeros((4, 5)), images(), "Expected examples of shape", DataError),
        (_written(tmp_path, pd.DataFrame({"a": [1, 2]})), images(), "Found a table", DataError),
        (tmp_path / "bad.npz", images(), "plain numpy arrays", CorruptFile),
        (tmp_path / "absent", images(), "absent", PolyarchError),
        (np.array(["a", "b"]), images(), "Expected numbers", InvalidInput),
    ):  # fmt: skip
        with pytest.raises(kind, match=words) as refused:
            unlabelled_examples(source, data)
        assert "\n" not in str(refused.value)
