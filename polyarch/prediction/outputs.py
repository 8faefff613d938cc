"""Predictions as a CSV file that a spreadsheet can open without harm."""

from __future__ import annotations

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
"""A cell that starts so is a command for a spreadsheet."""


@dataclass(frozen=True)
class Written:
    """What was predicted, in numbers.

    Args:
        accuracy: the share of right predictions, where the true classes are known.
        mean_depth: what the examples used, with early exit.
    """

    examples: int
    flagged: int
    accuracy: float | None
    mean_depth: float | None


def write_predictions(path: Path, predictor: Predictor, inputs: Inputs, report: Report) -> Written:
    """One line per example; the file appears when all of them are predicted."""
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
    return Written(done, flagged, accuracy, depth / done if predictor.exits else None)


def harmless(text: str) -> str:
    """With an apostrophe in front of what a spreadsheet would run as a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _lines(ids: Sequence[str], predictions: Predictions, classes: Sequence[str]) -> Iterator[list[str]]:
    depths = [] if predictions.depths is None else [predictions.depths.tolist()]
    rows = zip(
        ids,
        predictions.probabilities.tolist(),
        predictions.entropy.tolist(),
        predictions.mutual_information.tolist(),
        predictions.flagged.tolist(),
        *depths,
        strict=True,
    )
    for name, probabilities, entropy, information, flag, *depth in rows:
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        numbers = [f"{value:.7g}" for value in (probabilities[best], entropy, information)]
        shares = [f"{value:.7g}" for value in probabilities]
        yield [harmless(name), harmless(classes[best]), *numbers, str(int(flag)), *map(str, depth), *shares]


@contextmanager
def _new_file(path: Path) -> Iterator[IO[str]]:
    """A text file that takes its name when the block has ended well, and is gone when it has not."""
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
