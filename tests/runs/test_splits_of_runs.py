"""Runs whose validation and test examples are groups, the latest rows or files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import polyarch
from polyarch.cli import app
from polyarch.data import TableData, load
from polyarch.errors import InvalidInput
from polyarch.results import Results
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.workspace import Workspace

SMALL: dict[str, Any] = {
    "train.epochs": 1, "train.batch_size": 16, "scores.steps": 1, "scores.policy_batches": 1, "scores.batch_size": 16,
    "rank.architectures": 0, "search.budget": 2, "search.window": 2, "search.population": 2, "search.tournament": 2,
    "retrain.epochs": 1, "retrain.batch_size": 16, "retrain.seeds": 1, "retrain.members": 1,
    "retrain.random_architectures": 0, "programs": [],
}  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Path:
    number = np.arange(90)
    frame = pd.DataFrame({"person": number // 3, "hour": number, "x": number / 90, "z": -number, "y": number % 2})
    frame.to_csv(tmp_path / "hours.csv", index=False)
    frame.assign(person=number + 100, hour=number + 100)[:20].to_csv(tmp_path / "later.csv", index=False)
    return tmp_path / "hours.csv"


def build(folder: Path, table: Path, **options: Any) -> Run:
    described = {"data.name": str(table), "space.kind": "mlp"} | {
        f"data.{key}": value for key, value in options.items()
    }
    return Run.build(RunSettings.parse(with_overrides({}, described), "the test"), Workspace(folder))


def hours(*parts: Any) -> list[list[int]]:
    """The rows of each part, by the column z."""
    assert all(isinstance(part, TableData) for part in parts)
    return [(-part.inputs[:, -1]).int().tolist() for part in parts]


def test_the_latest_rows_are_held_out(table: Path, tmp_path: Path) -> None:
    feed = build(tmp_path, table, time="hour", validation=0.25).feed
    assert hours(feed.train, feed.valid, feed.data.test) == [
        list(range(54)), list(range(54, 72)), list(range(72, 90))
    ]  # fmt: skip
    assert feed.summary()["split"] == {
        "valid": "the latest 25 % by column 'hour', from the training examples",
        "test": "the latest 20 % by column 'hour'",
    }
    assert feed.network_shape == (3,)  # person, x and z


def test_groups_are_held_out_whole_even_with_a_limit(table: Path, tmp_path: Path) -> None:
    for options in ({}, {"limit": 12}):
        feed = build(tmp_path, table, group="person", **options).feed
        people = [{hour // 3 for hour in part} for part in hours(feed.train, feed.valid, feed.data.test)]
        assert sum(map(len, people)) == len(set.union(*people))
        if options:
            assert (len(feed.train), len(feed.valid)) == (12, 12)
    again = build(tmp_path, table, group="person", limit=12).feed
    assert torch.equal(feed.valid.targets, again.valid.targets) and hours(feed.valid) == hours(again.valid)


def test_validation_examples_of_their_own(table: Path, tmp_path: Path) -> None:
    run = build(tmp_path, table, valid=str(tmp_path / "later.csv"), group="person", target="y")
    assert (len(run.feed.valid), len(run.feed.train) + len(run.feed.data.test)) == (20, 90)
    assert run.feed.decisions() == [
        f"split: validation on those of {tmp_path / 'later.csv'}; "
        "test on whole groups by column 'person', about 20 % of the examples"
    ]
    assert build(tmp_path, table).feed.decisions() == []
    with pytest.raises(InvalidInput, match="cifar10 without other validation examples"):
        build(tmp_path, table, valid=str(tmp_path / "later.csv"), split="nb201", target="y")


def test_the_command_line_says_how_it_splits(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyarch.cli.options.console._width", 200)
    words = [
        "train", "--data", str(table), "--target", "y", "--time", "hour", "--test", str(tmp_path / "later.csv"),
        "--space", "mlp", "--workers", "1", "--epochs", "1", "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    shown = CliRunner().invoke(app, words, catch_exceptions=False).stdout
    assert "Chosen: split: validation on the latest 25 % by column 'hour', from the training examples; test on" in shown
    results = Results.read(tmp_path / "run" / "results.json")
    assert [results.data[part] for part in ("train", "valid", "test")] == [67, 23, 20]
    CliRunner().invoke(app, [*words, "--resume"], catch_exceptions=False)
    again = Results.read(tmp_path / "run" / "results.json")
    assert again.model_copy(update={"seconds": {}}) == results.model_copy(update={"seconds": {}})
    with pytest.raises(InvalidInput, match=r"Expected the settings of the run that is resumed\. 'data' is"):
        CliRunner().invoke(app, [*words, "--resume", "--valid", str(tmp_path / "later.csv")], catch_exceptions=False)


def test_the_facade_takes_arrays_of_their_own(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(60, 3)).astype(np.float32)
    labels = np.arange(60) % 2
    found = polyarch.search(
        (inputs, labels), validation=(inputs[:20] + 1, labels[:20]), groups=np.arange(60) // 4, space="mlp",
        out=tmp_path / "run", quiet=True, settings=SMALL,
    )  # fmt: skip
    data = found.results.data
    assert data["valid"] == 20 and data["train"] + data["test"] == 60 and data["train"] % 4 == 0
    assert data["split"]["test"] == "whole groups by the given groups, about 20 % of the examples"
    assert "Test: whole groups by the given groups, about 20 % of the" in (found.folder / "report.html").read_text()
    assert found.results.settings["data"]["group"] == "<given in Python>"
    with pytest.raises(InvalidInput, match=r"groups or times beside data that is yet to be split\. Got a Dataset"):
        polyarch.search(load((inputs, labels)), groups=labels, out=tmp_path / "other")
