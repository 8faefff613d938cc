"""Callbacks that pass the course of a training to tools that draw it: TensorBoard and MLflow."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from polyarch.errors import InvalidInput, MissingExtra, first_line
from polyarch.training.callbacks import Callback, FitState, Row

EXPERIMENT = "polyarch"
"""The experiment in MLflow that runs belong to by default."""


class TensorBoard(Callback):
    """Writes every epoch's row to TensorBoard; needs the ``tensorboard`` extra."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("Logging to TensorBoard", "tensorboard") from None
        self._writer = SummaryWriter(str(folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        """Writes one scalar per value."""
        for name, value in row.items():
            self._writer.add_scalar(name, value, int(row["step"]))


class MLflow(Callback):
    """Writes every epoch's row to a run in MLflow; needs the ``mlflow`` extra.

    Args:
        uri: where MLflow keeps its runs: ``sqlite:///mlflow.db``, the address of a server, or a folder where MLflow
            still allows one.
        name: of the run.
        run_id: of a run to go on with; a new one by default.
        experiment: the run belongs to it.
    """

    def __init__(self, uri: str, name: str, *, run_id: str | None = None, experiment: str = EXPERIMENT) -> None:
        try:
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        except ImportError:
            raise MissingExtra("Logging to MLflow", "mlflow") from None
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of every table of a new data base
        try:
            self._client = MlflowClient(tracking_uri=uri)
            self.run_id: str = run_id or self._begun(name, experiment)
            self._client.update_run(self.run_id, status="RUNNING")
        except (MlflowException, OSError, ValueError) as error:
            raise InvalidInput(f"Expected MLflow to keep runs at {uri}. Found: {first_line(error)}.") from None

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        """Writes one metric per value."""
        self.measured(row, step=int(row["step"]))

    def described(self, values: Mapping[str, Any]) -> None:
        """Writes settings; those that the run has keep their values."""
        from mlflow.entities import Param

        known = self._client.get_run(self.run_id).data.params
        new = [Param(name, str(value)[:LONGEST]) for name, value in values.items() if name not in known]
        for start in range(0, len(new), MOST_PARAMS):
            self._client.log_batch(self.run_id, params=new[start : start + MOST_PARAMS])

    def measured(self, values: Mapping[str, float], step: int = 0) -> None:
        """Writes metrics; those that are not finite are left out."""
        for name, value in values.items():
            if math.isfinite(value):
                self._client.log_metric(self.run_id, name, value, step=step)

    def ended(self, *files: Path) -> None:
        """Keeps some files with the run, and marks it as finished."""
        for file in files:
            self._client.log_artifact(self.run_id, str(file))
        self._client.set_terminated(self.run_id)

    def _begun(self, name: str, experiment: str) -> str:
        found = self._client.get_experiment_by_name(experiment)
        place = self._client.create_experiment(experiment) if found is None else found.experiment_id
        return str(self._client.create_run(place, run_name=name).info.run_id)


LONGEST, MOST_PARAMS = 500, 100
"""What MLflow takes: characters of a value, and values at once."""
