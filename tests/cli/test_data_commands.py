"""`polyarch data` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from polyarch.cli.data import data_app
from polyarch.data import load
from polyarch.errors import InvalidInput, MissingData, UnknownName


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty data folder and a wide terminal."""
    monkeypatch.setenv("POLYARCH_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("polyarch.cli.options.console._width", 200)
    return tmp_path


def shown(*words: str) -> str:
    result = CliRunner().invoke(data_app, list(words), catch_exceptions=False)
    assert result.exit_code == 0
    return " ".join(result.stdout.split())


def test_list(data: Path) -> None:
    text = shown("list")
    for name in ("digits", "spirals", "mnist", "kmnist", "cifar100", "svhn"):
        assert f"│ {name} │" in text
    assert "170 MB │ no" in text
    assert str(data / "data") in text


def test_list_shows_where_files_are(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = data / "data" / "svhn"
    folder.mkdir(parents=True)
    for name in ("train_32x32.mat", "test_32x32.mat"):
        (folder / name).write_bytes(b"")
    assert f"246 MB │ {folder}" in shown("list")


def test_info_of_a_named_set(data: Path) -> None:
    text = shown("info", "digits", "--size", "4")
    assert "digits: 1,438 training and 359 test examples, images of shape 1 x 4 x 4, 10 classes" in text
    assert "│ 9 │ 144 │ 36 │" in text
    assert "Preprocessing: normalised by (mean, std) of every channel: (" in text


def test_info_of_a_table(data: Path) -> None:
    rows = "".join(
        f"{row},{'[b]' if row % 3 else ''},x,{'' if row == 2 else row / 3},k{row % 2}\n" for row in range(12)
    )
    path = data / "t.csv"
    path.write_text(f"a,[/i],same,c,kind\n{rows}")
    text = shown("info", str(path))
    assert "t.csv: 10 training and 2 test examples, rows of a table of shape 3, 2 classes" in text
    assert "│ [/i] │ 1 categories │ [b] │" in text
    assert "Column 'same' is left out: it never varies in training." in text
    assert "standardised numbers" in text


def test_info_of_many_columns(data: Path) -> None:
    path = data / "wide.npz"
    np.savez(path, x=np.random.default_rng(0).normal(size=(300, 60)), y=np.arange(300) % 50)
    text = shown("info", str(path), "--task", "classification")
    assert "rows of numbers of shape 60, 50 classes" in text
    assert "and 10 more" in text
    assert "of every number: (" in text and "; ..." in text


def test_info_of_numbers_and_labels(data: Path) -> None:
    rows = "".join(f"{row},{row / 3},{2 * row},{row % 2},{int(row % 3 == 0)}\n" for row in range(60))
    path = data / "t.csv"
    path.write_text(f"a,[price],c,hot,wet\n{rows}")
    text = shown("info", str(path), "--target", "[price]")
    prices = load(path, target="[price]").train.targets.double()
    assert "rows of a table of shape 4, a regression of 1 number" in text
    assert f"│ [price] │ {prices.mean():.5g} │ {prices.std(correction=0):.5g} │" in text
    assert "Column '[price]' has 60 different numbers: a regression; --task classification says otherwise" in text
    assert "a regression of 2 numbers" in shown("info", str(path), "--target", "[price],c")
    text = shown("info", str(path), "--target", "hot,wet")
    assert "2 labels that may be present together" in text and "│ hot │ 2" in text
    assert "60 classes" not in text


def test_download_of_what_is_there(data: Path) -> None:
    folder = data / "data" / "svhn"
    folder.mkdir(parents=True)
    for name in ("train_32x32.mat", "test_32x32.mat"):
        (folder / name).write_bytes(b"")
    assert shown("download", "svhn") == f"svhn is already there: {folder}"


@pytest.mark.parametrize(
    ("words", "kind", "sentence"),
    [
        (["info", "digit"], UnknownName, "Did you mean 'digits'"),
        (["info", "mnist"], MissingData, "polyarch data download mnist"),
        (["info", "no/where.csv"], MissingData, "Expected a file or folder at no/where.csv"),
        (["info", "digits", "--task", "ranking"], UnknownName, "task out of classification, regression, multi-label"),
        (["info", "digits", "--task", "regression"], InvalidInput, "data for the task regression. Got 'digits'"),
        (["download", "imagenet"], UnknownName, "Expected a data set to download out of mnist"),
    ],
)
def test_errors_are_sentences(data: Path, words: list[str], kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        CliRunner().invoke(data_app, words, catch_exceptions=False)
