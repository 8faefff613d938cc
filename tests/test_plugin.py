"""The example plug-in: one part of every kind in a package of its own, installed and used by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).resolve().parent.parent / "examples" / "plugin"
SMALL = {
    "programs": "[]",
    "data.limit": 200,
    "train.epochs": 1,
    "scores.steps": 2,
    "rank.architectures": 3,
    "rank.supernets": 1,
    "search.budget": 4,
    "search.window": 2,
    "search.population": 2,
    "retrain.epochs": 1,
    "retrain.seeds": 1,
    "retrain.members": 2,
    "retrain.random_architectures": 1,
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the package is installed, as pip does it for anyone."""
    folder = tmp_path_factory.mktemp("site")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--target")
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(folder), str(PLUGIN)], check=True)
    return folder


def polyarch(site: Path, folder: Path, *words: str, expected: int = 0) -> str:
    """Runs a command where the package is installed; returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = [sys.executable, "-m", "polyarch.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout + done.stderr


def small(**changes: object) -> list[str]:
    settings = {**SMALL, **changes}
    return ["--workers", "1", *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]


@pytest.mark.slow
def test_a_method_and_a_space(site: Path, tmp_path: Path) -> None:
    options = small(**{"training_free.candidates": 4})
    polyarch(
        site,
        tmp_path,
        "search",
        "--data",
        "digits",
        "--method",
        "training-free",
        "--space",
        "kernels",
        "--out",
        "run",
        *options,
    )
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["method"] == "training-free"
    assert results["default"] == "ensemble"
    assert len(results["record"]["scores"]) == 4
    assert "Scores without training" in (tmp_path / "run" / "report.html").read_text()
    assert "candidates = 4" in (tmp_path / "run" / "config.toml").read_text()
    before = (tmp_path / "run" / "results.json").read_text()
    polyarch(site, tmp_path, "search", "--resume", "--out", "run")
    again = json.loads((tmp_path / "run" / "results.json").read_text())
    assert {**again, "seconds": None} == {**json.loads(before), "seconds": None}


@pytest.mark.slow
def test_parts_of_a_search_without_packaging(site: Path, tmp_path: Path) -> None:
    """The estimator by where it lies, in the current folder; strategy and sampler by name."""
    (tmp_path / "proxies.py").write_text((PLUGIN / "polyarch_example" / "estimator.py").read_text())
    parts = ["--strategy", "narrow_first", "--estimator", "proxies:GradientNorm", "--sampler", "hill_climbing"]
    polyarch(site, tmp_path, "search", "--data", "digits", "--space", "kernels", "--out", "run", *parts, *small())
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["training"]["strategy"] == "narrow_first"
    assert results["record"]["search"]["objectives"] == ["gradient_norm"]
    assert results["record"]["search"]["sampler"] == "hill_climbing"


@pytest.mark.slow
def test_an_experiment(site: Path, tmp_path: Path) -> None:
    shown = polyarch(site, tmp_path, "experiment", "run", "gradient_size", "--out", "run", "--workers", "1")
    assert "Spearman of norm and size" in shown
    assert json.loads((tmp_path / "run" / "results.json").read_text())["experiment"] == "gradient_size"


def test_names_are_listed(site: Path, tmp_path: Path) -> None:
    shown = polyarch(site, tmp_path, "search", "--data", "digits", "--method", "nothing", "--out", "run", expected=2)
    assert "training-free" in shown and "one-shot" in shown
    assert "kernels" in polyarch(site, tmp_path, "spaces", "list")
