"""Writes predictions to a CSV file that is safe to open in a spreadsheet."""

import csv
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from polyarch.errors import InvalidInput
from polyarch.prediction.inputs import Inputs
from polyarch.prediction.predictor import Predictions, Predictor
from polyarch.runs.display import Report

COLUMNS = ("id", "prediction", "probability", "entropy", "mutual_information", "flag")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""Spreadsheets run cells that start with these as formulas."""


@dataclass(frozen=True)
class PredictionSummary:
    """Counts, the accuracy if the true classes are known, and the mean depth with early exit."""

    examples: int
    flagged: int
    accuracy: float | None
    mean_depth: float | None


def write_predictions(path: Path, predictor: Predictor, inputs: Inputs, report: Report) -> PredictionSummary:
    """Writes one line per example; the file appears once all of them are predicted."""
    done = flagged = right = depth = 0
    total = len(inputs.ids)
    with _new_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        columns = (*COLUMNS, "depth") if predictor.exits else COLUMNS
        writer.writerow([*columns, *(f"p:{name}" for name in predictor.classes)])
        for batch in inputs.batches:
            ids = inputs.ids[done : done + len(batch)]
            predictions = predictor(batch, names=ids)
            writer.writerows(_lines(ids, predictions, predictor.classes))
            if inputs.targets is not None:
                targets = inputs.targets[done : done + len(batch)]
                right += int((predictions.probabilities.argmax(1) == targets).sum())
            flagged += int(predictions.flagged.sum())
            if predictions.depths is not None:
                depth += int(predictions.depths.sum())
            done += len(batch)
            report(done, total, "")
    accuracy = None if inputs.targets is None else right / done
    return PredictionSummary(done, flagged, accuracy, depth / done if predictor.exits else None)


def spreadsheet_safe(text: str) -> str:
    """Puts an apostrophe before text that a spreadsheet would run as a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _lines(ids: Sequence[str], predictions: Predictions, classes: Sequence[str]) -> Iterator[list[str]]:
    for name, (best, probabilities, entropy, information, flag, *depth) in zip(ids, predictions.rows(), strict=True):
        numbers = [f"{value:.7g}" for value in (probabilities[best], entropy, information)]
        shares = [f"{value:.7g}" for value in probabilities]
        names = [spreadsheet_safe(name), spreadsheet_safe(classes[best])]
        yield [*names, *numbers, str(int(flag)), *map(str, depth), *shares]


@contextmanager
def _new_file(path: Path) -> Iterator[IO[str]]:
    """A text file that appears at the end of the block, unless the block raises."""
    if path.is_dir():
        raise InvalidInput(f"Expected a file to write to. Got the folder {path}.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InvalidInput(f"Expected to be able to write {path}. Found: {error.strerror}.") from None
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # temporary files are private
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
