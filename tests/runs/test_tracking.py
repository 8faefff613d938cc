"""A run in MLflow, and the licence in its cards."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from depth_checks import SPIRALS

import polyarch
from polyarch.facade import SearchResult


def searched(out: Path, **settings: Any) -> SearchResult:
    changes = {**SPIRALS, "train.epochs": 5, "programs": [], **settings}
    return polyarch.search("spirals", out=out, quiet=True, report=False, settings=changes)


def test_a_run_is_followed_and_its_results_are_kept(mlflow_store: str, tmp_path: Path) -> None:
    found = searched(tmp_path / "run", mlflow=mlflow_store, licence="mit")
    polyarch.search("spirals", out=tmp_path / "run", resume=True, quiet=True, report=False)
    client: Any = importlib.import_module("mlflow").MlflowClient(mlflow_store)
    experiment = client.get_experiment_by_name("polyarch")
    (run,) = client.search_runs([experiment.experiment_id])  # the resumed run is the same one
    assert run.info.run_name == "run" and run.info.status == "FINISHED"
    assert run.data.params["train.epochs"] == "5" and run.data.params["data.name"] == "spirals"
    losses = [one.value for one in client.get_metric_history(run.info.run_id, "loss")]
    assert losses == [row["loss"] for row in found.results.training.history]
    answer = next(one for one in found.results.predictors if one.folder == found.results.default)
    assert run.data.metrics[f"{answer.folder}/accuracy"] == answer.score
    assert [one.path for one in client.list_artifacts(run.info.run_id)] == ["results.json"]
    assert found.results.default is not None
    assert 'license: "mit"' in (found.folder / found.results.default / "README.md").read_text()


def test_nothing_is_written_without_being_asked_for(mlflow_store: str, tmp_path: Path) -> None:
    searched(tmp_path / "run")
    assert not (tmp_path / "mlruns").exists() and not (tmp_path / "run" / "checkpoints" / "mlflow.json").exists()
