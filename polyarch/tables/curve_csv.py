"""Learning curves from CSV files."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.errors import CorruptFile, DataError, InvalidInput, MissingData, first_line
from polyarch.spaces import Space
from polyarch.tables.curve_table import CurveTable
from polyarch.tables.notations import parse_architecture

ACCURACIES = ("test_accuracy", "valid_accuracy")
"""The accuracy of an architecture is the last value of the first of these that the file has."""


def read_curve_csv(path: Path, space: Space) -> CurveTable:
    """Reads a CSV or gzipped CSV file with one row per architecture and epoch.

    ::

        architecture,epoch,train_loss,valid_accuracy,test_accuracy
        skip|conv|none,1,2.01,31.5,31.2
        skip|conv|none,2,1.63,44.0,43.8

    ``architecture`` is in one of the notations of `parse_architecture`; epochs count from 1 without gaps, in any order.
    Every other column is a measure, accuracies in percent; an empty cell ends a curve early. One of `ACCURACIES` is
    required.
    """
    if not path.is_file():
        raise MissingData(f"Expected a table of learning curves at {path}. Found no such file.")
    opener: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
            runs, measures = _runs(path, csv.DictReader(file))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise CorruptFile(f"Expected {path} to be a CSV file. Found: {first_line(error)}.") from None
    longest = max(max(epochs) for epochs in runs.values())
    values = np.full((len(measures), len(runs), longest), np.nan, dtype=np.float32)
    indices = []
    for row, (text, epochs) in enumerate(runs.items()):
        try:
            indices.append(parse_architecture(text, space).indices)
        except InvalidInput as error:
            raise DataError(f"Expected {path} to have architectures of space {space.name!r}. {error}") from None
        if len(epochs) != max(epochs):
            raise DataError(f"Expected epochs from 1 without gaps in {path}. Got {sorted(epochs)[:5]}... for {text}.")
        for epoch, numbers in epochs.items():
            values[:, row, epoch - 1] = numbers
    curves = dict(zip(measures, values, strict=True))
    return CurveTable(path.name.split(".")[0], space, indices, _last_values(path, curves, list(runs)), curves)


def _runs(path: Path, reader: csv.DictReader[str]) -> tuple[dict[str, dict[int, list[float]]], list[str]]:
    """Architecture -> epoch -> the values of all measures, and the names of the measures."""
    header = list(reader.fieldnames or ())
    measures = [name for name in header if name not in ("architecture", "epoch")]
    if len(header) != len(measures) + 2 or len(set(header)) != len(header) or not set(ACCURACIES) & set(measures):
        raise DataError(
            f"Expected the columns architecture, epoch, measures and one of {' or '.join(ACCURACIES)} in {path}. "
            f"Got {', '.join(header) or 'none'}."
        )
    runs: dict[str, dict[int, list[float]]] = {}
    for row in reader:
        try:
            if None in row or None in row.values():  # the csv module's sign of a row that is too long or too short
                raise ValueError(f"a row of other than {len(header)} columns")
            epoch = int(row["epoch"])
            numbers = [float(row[name]) if row[name] else np.nan for name in measures]
            if epoch < 1:
                raise ValueError("an epoch below 1")
        except ValueError as error:
            raise DataError(f"Expected numbers in line {reader.line_num} of {path}. Found: {error}.") from None
        epochs = runs.setdefault(row["architecture"].strip(), {})
        if epoch in epochs:
            raise DataError(f"Expected every epoch once in {path}. Got {epoch} twice for {row['architecture']}.")
        epochs[epoch] = numbers
    if not runs:
        raise DataError(f"Expected at least one architecture in {path}. Got none.")
    return runs, measures


def _last_values(path: Path, curves: dict[str, NDArray[np.float32]], texts: list[str]) -> NDArray[np.float64]:
    values = next(curves[name] for name in ACCURACIES if name in curves).astype(np.float64)
    ends = (~np.isnan(values)).sum(axis=1) - 1
    if (ends < 0).any():
        without = texts[int(np.argmax(ends < 0))]
        raise DataError(f"Expected an accuracy for every architecture in {path}. Got none for {without}.")
    last: NDArray[np.float64] = values[np.arange(len(values)), ends]
    return last
