"""Subsets of folders of images, as functions and as a command, and names in the data folder."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from polyarch.data import load, write_subset
from polyarch.errors import DataError, InvalidInput, UnknownName


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Six classes with seven images each, one of them in a folder further down."""
    folder = tmp_path / "images"
    for name in "abcdef":
        for number in range(7):
            path = folder / name / ("deeper" if number == 6 else "") / f"{name}{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (10 * number, 0, 0)).save(path)
    return folder


def files(folder: Path) -> dict[str, set[str]]:
    """Side/class -> the names of its images."""
    found: dict[str, set[str]] = {}
    for path in folder.rglob("*.png"):
        found.setdefault("/".join(path.relative_to(folder).parts[:2]), set()).add(path.name)
    return found


def test_counts_and_content(many: Path, tmp_path: Path) -> None:
    names = write_subset(many, tmp_path / "few", classes=3, train=4, test=3, seed=1)
    found = files(tmp_path / "few")
    assert set(found) == {f"{side}/{name}" for side in ("train", "test") for name in names} and len(set(names)) == 3
    for name in names:
        train, test = found[f"train/{name}"], found[f"test/{name}"]
        assert (len(train), len(test)) == (4, 3) and not train & test
        assert train | test == {f"{name}{number}.png" for number in range(7)}
    assert all(path.resolve().is_relative_to(many) for path in (tmp_path / "few").rglob("*.png"))
    data = load(tmp_path / "few")
    assert data.class_names == names
    assert data.train.targets.bincount().tolist() == [4] * 3 and data.test.targets.bincount().tolist() == [3] * 3


def test_the_seed_decides(many: Path, tmp_path: Path) -> None:
    """Every seed draws other classes and images; which images of a class does not depend on the other classes."""
    drawn = {}
    for name, seed, classes in (("first", 0, 3), ("again", 0, 3), ("other", 1, 3), ("all", 0, 6)):
        write_subset(many, tmp_path / name, classes=classes, train=2, test=2, seed=seed)
        drawn[name] = files(tmp_path / name)
    assert drawn["first"] == drawn["again"] != drawn["other"]
    assert all(drawn["all"][place] == names for place, names in drawn["first"].items())


def test_every_class_is_as_likely(many: Path, tmp_path: Path) -> None:
    drawn = [write_subset(many, tmp_path / f"{seed}", classes=2, train=1, test=1, seed=seed) for seed in range(60)]
    counts = [sum(name in names for names in drawn) for name in "abcdef"]
    assert sum(counts) == 120 and min(counts) > 8 and max(counts) < 34  # 20 each, 3.7 standard deviations


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ({"classes": 7}, r"7 or more folders of classes in .*Found 6"),
        ({"classes": 2, "train": 5, "test": 3}, r"8 or more images in .*Found 7"),
        ({"classes": 0}, "1 or more classes, training and test images. Got 0, 250 and 250"),
    ],
)
def test_too_many_wanted(many: Path, tmp_path: Path, wanted: dict[str, int], complaint: str) -> None:
    with pytest.raises((DataError, InvalidInput), match=complaint):
        write_subset(many, tmp_path / "few", **wanted)
    assert not (tmp_path / "few").exists()


def test_no_folder_is_overwritten(many: Path) -> None:
    with pytest.raises(InvalidInput, match="Expected a new folder for the subset"):
        write_subset(many, many, classes=2, train=1, test=1)


def test_a_folder_in_the_data_folder_goes_by_its_name(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its test images can validate as well, which the paper does."""
    monkeypatch.setenv("POLYARCH_DATA", str(tmp_path / "data"))
    with pytest.raises(UnknownName, match="subimagenet"):
        load("subimagenet")
    write_subset(many, tmp_path / "data" / "subimagenet", classes=2, train=4, test=3)
    data = load("subimagenet", valid="subimagenet/test", size=5)
    assert (len(data.train), len(data.test), data.input_shape) == (8, 6, (3, 5, 5))
    assert data.valid is not None and data.valid.targets.tolist() == data.test.targets.tolist()


def test_from_the_command_line(
    many: Path, tmp_path: Path, polyarch: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    out = tmp_path / "few"
    words = ["data", "subset", str(many), "--out", str(out), "--classes", "2", "--train", "3", "--test", "1"]
    finished = polyarch(*words, "--seed", "5")
    assert finished.returncode == 0, finished.stderr
    assert "3 training and 1 test images of each of 2 classes" in " ".join(finished.stdout.split())
    assert sum(map(len, files(out).values())) == 8
    assert "Found" in polyarch(*words).stderr
