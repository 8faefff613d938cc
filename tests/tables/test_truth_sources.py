"""Truths by name and path, and the commands about them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from polyarch.cli.options import console
from polyarch.cli.truth import truth_app
from polyarch.errors import InvalidInput, MissingData, PolyarchError, UnknownName
from polyarch.spaces import Choice, Space, nb201_space
from polyarch.spaces.darts import darts_space, darts_string
from polyarch.spaces.macro import macro_space
from polyarch.tables import SOURCES, CurveTable, load_truth, parse_architecture

SPACE = Space("small", (Choice("first", ("a", "b")), Choice("second", ("x", "y"))))


def small_table(path: Path) -> Path:
    curves = {"train_loss": [[2.0, 1.5], [3.0, 2.5]]}
    CurveTable("mine", SPACE, [[0, 0], [1, 1]], [80.0, 90.0], curves, {"valid_accuracy": [70.0, 60.0]}).save(path)
    return path


def invoked(*words: str) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(truth_app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_files(tmp_path: Path) -> None:
    path = small_table(tmp_path / "mine.npz")
    best = SPACE.architecture(["b", "y"])
    assert load_truth(path).accuracy(best) == load_truth(str(path)).accuracy(best) == 90.0
    assert load_truth(f"{path}:valid_accuracy").accuracy(best) == 60.0
    with pytest.raises(UnknownName, match="column of mine"):
        load_truth(f"{path}:seconds")


@pytest.mark.parametrize(
    "name", ["nb301", "nb201", "nats", "nats:cifar100_12", "macro", "spikenas", "nb101", "nb101:2"]
)
def test_missing_data_say_how_to_get_them(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYARCH_DATA", str(tmp_path))
    with pytest.raises(MissingData) as caught:
        load_truth(name)
    sentence = str(caught.value)
    assert "pip install nasbench301" in sentence or (str(tmp_path) in sentence and "POLYARCH_DATA" in sentence)
    if name.startswith(("nats", "nb101")):
        assert f"polyarch truth convert {name.partition(':')[0]} " in sentence


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nb102", "Did you mean 'nb101'"),
        ("nats:svhn", "cifar10, cifar100, imagenet16"),
        ("nb101:4", "nb101:1, nb101:2 or nb101:3"),
        ("nb301:xgb", "nb301 alone"),
    ],
)
def test_names_that_are_not_there(name: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        load_truth(name)


def test_columns_of_tables(nb201_table_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYARCH_DATA", str(nb201_table_path.parent.parent))
    skips = nb201_space().architecture(["skip_connect"] * 6)
    assert load_truth("nb201").accuracy(skips) == pytest.approx(54.2967)
    assert load_truth("nb201:cifar100_test_200").accuracy(skips) == pytest.approx(15.6067)


def test_converted_curves_have_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYARCH_DATA", str(tmp_path))
    CurveTable("cells", nb201_space(), [[0] * 6], [12.0]).save(tmp_path / "nas_bench_201" / "nats_cifar100.npz")
    assert load_truth("nats:cifar100").accuracy(nb201_space().architecture(["none"] * 6)) == 12.0


@pytest.mark.parametrize("text", ["a|y", "a,y", " a|y "])
def test_notations_of_any_space(text: str) -> None:
    assert parse_architecture(text, SPACE) == SPACE.architecture(["a", "y"])


def test_published_notations() -> None:
    cell = "|nor_conv_1x1~0|+|none~0|none~1|+|none~0|none~1|skip_connect~2|"
    assert parse_architecture(cell, nb201_space()).option("2->3") == "skip_connect"
    assert parse_architecture("00000012", macro_space()).indices == (0, 0, 0, 0, 0, 0, 1, 2)
    networks = darts_space()
    network = networks.architecture([choice.options[-1] for choice in networks.choices])
    assert parse_architecture(darts_string(network), networks) == parse_architecture(network.key, networks) == network
    one = Space("one", (Choice("parents", ("0,1", "0,2")),))
    assert parse_architecture("0,2", one).indices == (1,)


def test_list_names_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYARCH_DATA", str(tmp_path))
    monkeypatch.setattr(console, "_width", 300)  # a long path is not broken into lines
    (tmp_path / "nas_bench_301" / "xgb_v1.0").mkdir(parents=True)
    output = invoked("list")
    assert all(name in output for name in SOURCES)
    assert "xgb_v1.0" in output and "nb201_table" not in output


def test_show(tmp_path: Path) -> None:
    path = str(small_table(tmp_path / "mine.npz"))
    output = invoked("show", path)
    assert "mine: 2 architectures of space small" in output
    assert "Learning curves: train_loss" in output and "Best: b|y with 90.00 %" in output
    output = invoked("show", path, "--architecture", "a|x")
    assert "a|x: 80.00 %" in output and "train_loss" in output and "1.5" in output
    with pytest.raises(PolyarchError, match="Got b"):
        invoked("show", path, "--architecture", "b|x")


def test_convert_refuses_other_kinds(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="kind of file out of nats, nb101"):
        invoked("convert", "nb301", str(tmp_path), "--out", str(tmp_path / "out.npz"))
    with pytest.raises(MissingData, match="NAS-Bench-101 at"):
        invoked("convert", "nb101", str(tmp_path / "absent"), "--out", str(tmp_path / "out.npz"))
