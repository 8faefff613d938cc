"""TensorBoard and MLflow get what `fit` measures."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path

import pytest
from scripted_strategy import Scripted, two_batches

from polyarch.errors import InvalidInput, MissingExtra
from polyarch.training import MLflow, TensorBoard, fit


class TestTensorBoard:
    def test_every_value_of_every_epoch_is_written(self, tmp_path: Path) -> None:
        events = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
        with TensorBoard(tmp_path) as board:
            fit(Scripted([0.25, 0.75]), two_batches(), two_batches(), epochs=2, seed=0, callbacks=[board])
        written = events.EventAccumulator(str(tmp_path)).Reload()
        assert set(written.Tags()["scalars"]) == {"epoch", "step", "loss", "valid_accuracy"}
        points = [(event.step, event.value) for event in written.Scalars("valid_accuracy")]
        assert points == [(2, 0.25), (4, 0.75)]

    def test_without_the_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
        with pytest.raises(MissingExtra, match=r"TensorBoard.*pip install 'polyarch\[tensorboard\]'"):
            TensorBoard(tmp_path)


class TestMLflow:
    def test_every_value_of_every_epoch_is_written(self, mlflow_store: str) -> None:
        tracked = MLflow(mlflow_store, "a run")
        fit(Scripted([0.25, 0.75]), two_batches(), two_batches(), epochs=2, seed=0, callbacks=[tracked])
        client = importlib.import_module("mlflow").MlflowClient(mlflow_store)
        run = client.get_run(tracked.run_id)
        assert run.info.run_name == "a run" and run.info.status == "RUNNING"
        assert set(run.data.metrics) == {"epoch", "step", "loss", "valid_accuracy"}
        points = [(one.step, one.value) for one in client.get_metric_history(tracked.run_id, "valid_accuracy")]
        assert points == [(2, 0.25), (4, 0.75)]

    def test_a_run_goes_on(self, mlflow_store: str, tmp_path: Path) -> None:
        first = MLflow(mlflow_store, "a run")
        first.described({"epochs": 2, **{f"choice{number}": number for number in range(150)}})
        again = MLflow(mlflow_store, "a run", run_id=first.run_id)
        again.described({"epochs": 3, "workers": 1, "long": "a" * 1000})
        again.measured({"accuracy": 0.5, "loss": math.nan})
        (tmp_path / "results.json").write_text("{}")
        again.ended(tmp_path / "results.json")
        client = importlib.import_module("mlflow").MlflowClient(mlflow_store)
        run = client.get_run(first.run_id)
        assert again.run_id == first.run_id and run.info.status == "FINISHED"
        assert len(client.search_runs([run.info.experiment_id])) == 1
        assert run.data.params["epochs"] == "2" and run.data.params["workers"] == "1"
        assert run.data.params["choice149"] == "149" and run.data.params["long"] == "a" * 500
        assert run.data.metrics == {"accuracy": 0.5}
        assert [one.path for one in client.list_artifacts(first.run_id)] == ["results.json"]

    def test_places_that_are_none_are_refused_in_one_sentence(self, mlflow_store: str) -> None:
        with pytest.raises(InvalidInput, match=r"Expected MLflow to keep runs at nowhere://x\. Found: "):
            MLflow("nowhere://x", "a run")
        with pytest.raises(InvalidInput, match="Found: "):
            MLflow(mlflow_store, "a run", run_id="0" * 32)

    def test_without_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "mlflow", None)
        with pytest.raises(MissingExtra, match=r"MLflow.*pip install 'polyarch\[mlflow\]'"):
            MLflow("sqlite:///mlflow.db", "a run")
