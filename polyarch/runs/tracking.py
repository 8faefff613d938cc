"""Runs in the tools that a lab tracks its experiments with."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from polyarch.files import write_json
from polyarch.results import Results
from polyarch.runs.run import Run
from polyarch.settings import flat
from polyarch.training import Callback, MLflow, TensorBoard


@contextmanager
def loggers(run: Run) -> Iterator[list[Callback]]:
    """Callbacks that pass every epoch of the supernet to TensorBoard and MLflow, as far as the settings ask for it."""
    tracked = mlflow_run(run)
    others: list[Callback] = [] if tracked is None else [tracked]
    if not run.settings.tensorboard:
        yield others
        return
    with TensorBoard(run.workspace.folder / "tensorboard") as board:
        yield [board, *others]


def mlflow_run(run: Run) -> MLflow | None:
    """The run in MLflow that stands for this one, also after it was resumed; its settings are its parameters."""
    if run.settings.mlflow is None:
        return None
    path = run.workspace.checkpoints / "mlflow.json"
    known = json.loads(path.read_text())["run_id"] if path.exists() else None
    tracked = MLflow(run.settings.mlflow, run.workspace.folder.resolve().name, run_id=known)
    if known is None:
        write_json(path, {"run_id": tracked.run_id})
    tracked.described(dict(flat(run.settings.model_dump(mode="json", exclude={"decisions"}))))
    return tracked


def track_results(run: Run, results: Results) -> None:
    """Passes the metrics of every predictor on test data to MLflow, if it follows the run, and the results file."""
    tracked = mlflow_run(run)
    if tracked is None:
        return
    for one in results.predictors:
        if one.folder is not None:
            tracked.measured({f"{one.folder}/{name}": value for name, value in one.metrics.items()})
    tracked.ended(run.workspace.results)
