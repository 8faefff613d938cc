"""Runs of polyarch 0.7.0 still predict, and go on as runs of this version."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from safetensors.torch import load_file

from polyarch.cli.prediction import predict
from polyarch.errors import ConfigError, CorruptFile
from polyarch.prediction.predictor import Predictor
from polyarch.results import Results
from polyarch.runs.display import Quiet
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import perform
from polyarch.runs.start import Beginning
from polyarch.training import StopRequest

RUNS = Path(__file__).parent / "fixtures" / "0.7.0"
"""Tiny runs on the spirals, with what 0.7.0 predicted for some points; reports, logs and most checkpoints left out."""

PREDICTED = sorted(RUNS.glob("*/predictions*.csv"))


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def resume(folder: Path) -> Results:
    return perform(Beginning(folder, Quiet(), StopRequest()).resume(None, {}, "the test"))


def numbers_of(record: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in record.items() if isinstance(value, float)}


@pytest.mark.parametrize("path", PREDICTED, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_predictions_are_the_same(path: Path, tmp_path: Path) -> None:
    """By default and by mode; the default is the one of that version."""
    mode = path.stem.partition("-")[2] or None
    predict(path.parent, RUNS / "points.npz", tmp_path / "out.csv", mode=mode)
    found, expected = read_csv(tmp_path / "out.csv"), read_csv(path)
    assert list(found[0]) == list(expected[0]) and len(found) == len(expected) == 60
    words = {"id", "prediction", "flag", "depth"} & set(found[0])
    for now, then in zip(found, expected, strict=True):
        assert {name: now[name] for name in words} == {name: then[name] for name in words}
        numbers = [[float(value) for name, value in row.items() if name not in words] for row in (now, then)]
        assert numbers[0] == pytest.approx(numbers[1], abs=1e-5)


@pytest.mark.parametrize(
    "folder",
    sorted(path.parent for path in RUNS.glob("*/*/architecture.json")),
    ids=lambda path: f"{path.parent.name} {path.name}",
)
def test_artifacts_load(folder: Path) -> None:
    predictor = Predictor.load(folder)
    with np.load(RUNS / "points.npz") as file:
        predictions = predictor(torch.from_numpy(file["x"]))
    metadata = json.loads((folder / "metadata.json").read_text())
    assert list(predictor.classes) == metadata["classes"] and predictor.threshold == metadata["threshold"]
    torch.testing.assert_close(predictions.probabilities.sum(1), torch.ones(60))


@pytest.mark.parametrize("name", ["depth", "one_shot", "stochastic"])
def test_results_are_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(CorruptFile, match=r"version 4\. Found 2; `polyarch search --resume --out`") as caught:
        Results.read(RUNS / name / "results.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["depth", "stochastic"])
def test_a_finished_run_is_written_anew_without_training(name: str, tmp_path: Path) -> None:
    """From its checkpoints, with the same numbers."""
    folder = Path(shutil.copytree(RUNS / name, tmp_path / name))
    before: dict[str, Any] = json.loads((folder / "results.json").read_text())
    results = resume(folder)
    assert Results.read(folder / "results.json") == results
    now = results.model_dump(mode="json")
    assert now["version"] == 4 and now["default"] == {"depth": "posterior", "stochastic": "ensemble"}[name]
    assert now["data"].pop("split")["test"] == "those of the source"  # which results of 0.7 do not say
    told = len(before["decisions"])
    assert now["data"] == {**before["data"], "targets": []} and now["decisions"][:told] == before["decisions"]
    further = now["decisions"][told:]  # 0.8 also says which weights the mixture of depths has
    assert [one.partition(" of the depths")[0] for one in further] == (["mixture"] if name == "depth" else [])
    before["artifact"]["score"] = before["artifact"].pop("accuracy")
    assert now["artifact"] == before["artifact"]
    assert now["task"]["names"] == before["data"]["classes"] and now["task"]["metric"] == "accuracy"
    assert now["training"]["history"] == before["training"]["history"]
    for one, other in zip(now["comparison"], before["comparison"], strict=True):
        if one["name"] == "mixture of all depths":  # 0.8 weighs it by the exact posterior
            continue
        assert numbers_of(one) == pytest.approx(numbers_of(other), abs=1e-6)
        for run, then in zip(one["runs"], other["runs"], strict=True):
            assert (run["score"], run["valid_score"]) == (then["accuracy"], then["valid_accuracy"])
            assert run["metrics"]["calibration_error"] == pytest.approx(then["calibration_error"], abs=1e-6)
    for one, other in zip(now["predictors"], before["predictors"], strict=True):
        found = {**numbers_of(one), "accuracy": one.pop("score")} | one["metrics"]
        found |= {f"uncalibrated_{name}": one["uncalibrated"][name] for name in ("loss", "calibration_error")}
        expected = numbers_of(other)
        assert len(expected) >= 8
        if other["temperature"] < 1:  # 0.8 makes predictions surer with more caution
            assert other["temperature"] <= found["temperature"] < 1
            expected = {name: expected[name] for name in ("accuracy", "uncalibrated_loss")}
        assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert '"event": "epoch"' not in (folder / "log.jsonl").read_text()


def test_settings_of_all_methods_are_read_and_a_run_without_checkpoints_starts_again(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(RUNS / "one_shot", tmp_path / "run"))
    settings = RunSettings.read(folder / "config.toml")
    assert set(settings.sections) == {"depth", "differentiable", "stochastic", "guided"}
    results = resume(folder)
    assert results.default == "ensemble" and len(results.predictors) == 2
    before = json.loads((RUNS / "one_shot" / "results.json").read_text())
    assert results.artifact is not None and results.artifact["architecture"] == before["artifact"]["architecture"]
    then, now = (load_file(run / "ensemble" / "weights.safetensors") for run in (RUNS / "one_shot", folder))
    torch.testing.assert_close(now, then, rtol=1e-3, atol=1e-3)  # the same bits on the same processor
    assert Results.read(folder / "results.json").comparison == results.comparison


def test_a_renamed_setting_is_refused_by_its_new_name(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(RUNS / "one_shot", tmp_path / "run"))
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text.replace("[data]", '[data]\noutside = "digits"'))
    with pytest.raises(ConfigError, match=r"Expected data\.ood in .*config\.toml\. Got data\.outside"):
        resume(folder)


def test_no_file_names_a_place_of_the_machine_it_was_written_on() -> None:
    files = [path for path in RUNS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 400_000
    for path in files:
        assert not any(word in path.read_bytes() for word in (b"/home", b"/root", b"/tmp", b"/work")), path


WIRED = Path(__file__).parent / "fixtures" / "wired_last"
"""An ensemble of wirings whose stages pass on their last module, stored without a layout, and its predictions."""


def test_wirings_of_the_earlier_layout_predict_the_same() -> None:
    assert "layout" not in json.loads((WIRED / "ensemble" / "architecture.json").read_text())["network"]
    with np.load(WIRED / "expected.npz") as file:
        inputs, expected = torch.from_numpy(file["x"]), torch.from_numpy(file["probabilities"])
    found = Predictor.load(WIRED / "ensemble")(inputs).probabilities
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_settings_of_a_run_without_a_layout_are_of_the_earlier_one(tmp_path: Path) -> None:
    """New runs get the other; what they store says so."""
    space = {"kind": "wired", "width": 2, "modules": 3, "stages": 2, "wirings": ["101-000"]}
    (tmp_path / "config.toml").write_text(tomli_w.dumps({"method": "stochastic", "space": space}))
    assert RunSettings.read(tmp_path / "config.toml").space.model_dump()["layout"] == "last"
    fresh = RunSettings.parse({"method": "stochastic", "space": {**space, "wirings": []}}, "the test")
    assert fresh.space.model_dump()["layout"] == "aggregated"
    fresh.write(tmp_path / "config.toml")
    assert RunSettings.read(tmp_path / "config.toml").space == fresh.space
