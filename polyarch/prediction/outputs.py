"""Writes predictions to a CSV file that is safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from polyarch.files import output_file
from polyarch.prediction.inputs import Inputs
from polyarch.prediction.predictor import Predictions, Predictor
from polyarch.prediction.rows import columns_of, rows_of
from polyarch.runs.display import Report
from polyarch.tasks import MultiLabel, Regression, Task

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""Spreadsheets run cells that start with these as formulas."""


@dataclass(frozen=True)
class PredictionSummary:
    """Counts, the metrics if the true targets are known, and the mean depth with early exit."""

    examples: int
    flagged: int
    metrics: dict[str, float]
    mean_depth: float | None


def write_predictions(path: Path, predictor: Predictor, inputs: Inputs, report: Report) -> PredictionSummary:
    """Writes one line per example; a file appears once all of them are predicted, a stream has them at once."""
    done = flagged = depth = 0
    errors: list[Tensor] = []
    total = len(inputs.ids)
    with output_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        try:
            writer.writerow(["id", *columns_of(predictor)])
            for batch in inputs.batches:
                ids = inputs.ids[done : done + len(batch)]
                predictions = predictor(batch, names=ids)
                writer.writerows(_lines(ids, predictions, predictor))
                if inputs.targets is not None:
                    targets = inputs.targets[done : done + len(batch)]
                    errors.append(_errors(predictor.task, predictions, targets))
                flagged += int(predictions.flagged.sum())
                if predictions.depths is not None:
                    depth += int(predictions.depths.sum())
                done += len(batch)
                report(done, total, "")
        finally:
            text.detach()  # flushes; standard output is not ours to close
    metrics = _metrics(predictor.task, torch.cat(errors)) if errors else {}
    return PredictionSummary(done, flagged, metrics, depth / done if predictor.exits else None)


def _errors(task: Task, predictions: Predictions, targets: Tensor) -> Tensor:
    """By how much numbers are wrong, (B, T), whether classes are, or which share of the labels is, (B,)."""
    if isinstance(task, Regression):
        return (predictions.mean - targets).double()
    return task.errors(list(predictions.values.values()), targets)


def _metrics(task: Task, errors: Tensor) -> dict[str, float]:
    """What the errors of all predictions amount to; those of several numbers count in units of their scale."""
    if isinstance(task, Regression):
        relative = errors / errors.new_tensor(task.scale) if len(task.names) > 1 else errors
        return {"RMSE": float(relative.square().mean(0).sqrt().mean()), "MAE": float(relative.abs().mean())}
    name = "Label accuracy" if isinstance(task, MultiLabel) else "Accuracy"
    return {name: 1 - float(errors.mean())}


def spreadsheet_safe(text: str) -> str:
    """Puts an apostrophe before text that a spreadsheet would run as a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _lines(ids: Sequence[str], predictions: Predictions, predictor: Predictor) -> Iterator[list[str]]:
    for name, cells in zip(ids, rows_of(predictions, predictor), strict=True):
        yield [spreadsheet_safe(name), *map(_text, cells)]


def _text(cell: str | float) -> str:
    """A cell of the file: fractions have seven digits."""
    if isinstance(cell, str):
        return spreadsheet_safe(cell)
    return str(cell) if isinstance(cell, int) else f"{cell:.7g}"
