"""Every experiment runs its quick preset from the command line, goes on after a kill, and starts its paper preset."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from polyarch.experiments import EXPERIMENTS, PRESETS
from polyarch.experiments.spiral_depth import run as run_spirals
from polyarch.jobs.parts import Parts
from polyarch.jobs.settings import RunSettings
from polyarch.results import ExperimentResults

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_quick_preset(name: str, tmp_path: Path, polyarch: Command, data_root: Path) -> None:
    out = tmp_path / "run"
    words = ["experiment", "run", name, "--preset", "quick", "--out", str(out), "--workers", "1"]
    finished = polyarch(*words)
    assert finished.returncode == 0, finished.stderr
    results = ExperimentResults.model_validate(json.loads((out / "results.json").read_text()))
    assert results.experiment == name and results.claims and results.runs

    # runs that are in the journal are not run again; a torn last line counts as not run
    journal = out / "runs.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"key": "seed 0", "va')
    assert polyarch(*words).returncode == 0
    again = ExperimentResults.model_validate(json.loads((out / "results.json").read_text()))
    assert again == results

    other = polyarch("experiment", "run", name, "--preset", "cpu", "--out", str(out))
    assert other.returncode == 2
    assert "choose another --out" in other.stderr


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_presets(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert tuple(experiment.presets) == PRESETS
    for settings in experiment.presets.values():
        assert experiment.items(settings)
        assert json.loads(json.dumps(settings)) == settings


@pytest.mark.slow
def test_paper_spirals_start(tmp_path: Path) -> None:
    settings = {**EXPERIMENTS["spiral_depth"].presets["paper"], "max_iterations": 3}
    assert run_spirals(settings, (0, None), tmp_path)["iterations"] == 3
    assert run_spirals(settings, (0, 50), tmp_path)["iterations"] == 3


@pytest.mark.slow
def test_paper_ranking_starts(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYARCH_DATA", str(data_root))
    settings = RunSettings.parse(EXPERIMENTS["one_shot_ranking"].presets["paper"]["run"], "test")
    parts = Parts.build(settings)
    strategy, _ = parts.strategy()
    batches = parts.batches(parts.train, settings.train.batch_size, stream="train").epoch(0)
    losses = [strategy.step([next(batches)], generator=torch.Generator())["loss"] for _ in range(2)]
    assert all(0 < loss < 10 for loss in losses)
