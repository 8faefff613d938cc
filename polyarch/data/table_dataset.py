"""Data sets from data frames: finds the label column, infers the other columns and splits off test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from polyarch.data.columns import TRUTH_WORDS, Cells, Column, cells_of, encode_rows, require_distinct
from polyarch.data.dataset import Dataset
from polyarch.data.examples import TableData, stratified_indices
from polyarch.data.labels import Array, ClassLabels, check_counts
from polyarch.errors import DataError, InvalidInput, closest_name

if TYPE_CHECKING:
    import pandas as pd

TARGET_NAMES = ("label", "target", "class", "y")
MOST_CATEGORIES = 64
"""The most categories of one column; less frequent ones count as unknown."""


@dataclass(frozen=True)
class TableSource:
    """A data frame, how error messages refer to it, and notes on how it was read."""

    frame: pd.DataFrame
    origin: str
    notes: tuple[str, ...] = ()


def table_dataset(
    name: str,
    train: TableSource,
    test: TableSource | None = None,
    *,
    target: str | None = None,
    test_share: float = 0.2,
) -> Dataset:
    """Builds a data set from the rows of a table.

    Args:
        test: the test rows; by default ``test_share`` of every class is split off.
        target: the label column; by default the column named label, target, class or y, otherwise the last one.
    """
    train, test = _named_by_text(train), test and _named_by_text(test)
    target = target_column(list(train.frame.columns), target, train.origin)
    labels = _labels(train, target)
    classes = ClassLabels.of(labels, f"column {target!r} of {train.origin}", "row")
    targets = classes.encode(labels, train.origin, "row")
    check_counts(targets, classes.names, train.origin, fewest=2 if test else 3)
    rows = torch.arange(len(targets))
    if test is None:
        rows, test_rows = stratified_indices(targets, test_share, seed=0)
    columns, notes = infer_columns(train, target, rows)
    inputs = encode_rows(train.frame, columns, origin=train.origin)
    count = len(classes.names)
    train_data = TableData(inputs[rows], targets[rows], count)
    if test is None:
        test_data = TableData(inputs[test_rows], targets[test_rows], count)
    else:
        test_targets = classes.encode(_labels(test, target), test.origin, "row")
        test_data = TableData(encode_rows(test.frame, columns, origin=test.origin), test_targets, count)
    return Dataset(name, train_data, test_data, classes.names, columns, (*train.notes, *notes))


def target_column(names: Sequence[str], target: str | None, origin: str) -> str:
    """The label column: the given one, the one named like a label, or the last."""
    if target is not None:
        if target not in names:
            hint = closest_name(target, names)
            raise InvalidInput(f"Expected the target out of the columns of {origin}. Got {target!r}.{hint}")
        return target
    found = [name for name in names if name.lower() in TARGET_NAMES]
    if len(found) > 1:
        raise InvalidInput(
            f"Expected one label column in {origin}. Found {', '.join(map(repr, found))}: choose with --target."
        )
    return found[0] if found else names[-1]


def infer_columns(table: TableSource, target: str, train_rows: Tensor) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns other than the label, and notes on those that were left out.

    All rows decide whether a column is numeric; the training rows decide its categories and whether it varies.
    """
    columns, notes = [], []
    rows = train_rows.numpy()
    for name in table.frame.columns:
        if name == target:
            continue
        cells = cells_of(table.frame[name], table.origin)
        codes = cells.codes[rows]
        if len(np.unique(codes)) < 2:
            notes.append(f"Column {name!r} is left out: it never varies in training.")
        elif cells.are_numbers:
            columns.append(Column(name))
        else:
            categories = _frequent(cells, rows)
            columns.append(Column(name, categories))
            distinct = len(np.unique(codes[codes >= 0]))
            if distinct > len(categories):
                notes.append(
                    f"Column {name!r} has {distinct} categories: all but the {MOST_CATEGORIES} most frequent "
                    "count as unknown."
                )
    if not columns:
        raise DataError(f"Expected a column besides {target!r} that varies in {table.origin}. Found none.")
    return tuple(columns), tuple(notes)


def _frequent(cells: Cells, rows: Array) -> tuple[str, ...]:
    """The most frequent texts; ties are sorted by name."""
    words = cells.words()
    codes = cells.codes[rows]
    counts = np.bincount(codes[codes >= 0], minlength=len(words)).tolist()
    seen = sorted((-count, word) for count, word in zip(counts, words, strict=True) if count)
    return tuple(word for _, word in seen[:MOST_CATEGORIES])


def _labels(table: TableSource, target: str) -> Array:
    """(N,) labels: whole numbers, fractions or texts."""
    if target not in table.frame.columns:
        raise DataError(f"Expected column {target!r} with the labels in {table.origin}. Found none of that name.")
    cells = cells_of(table.frame[target], table.origin)
    absent = np.flatnonzero(cells.codes < 0)
    if len(absent):
        raise DataError(
            f"Expected a label in column {target!r} of {table.origin} in every row. "
            f"Found none in row {int(absent[0]) + 1}."
        )
    written_truths = cells.texts is not None and all(text.lower() in TRUTH_WORDS for text in cells.texts)
    if cells.are_numbers and not written_truths:
        return cells.as_numbers()
    return np.array(cells.words(), dtype=np.str_)[cells.codes]


def _named_by_text(table: TableSource) -> TableSource:
    """The table with stripped column names; refuses repeated names, tables without rows and fewer than two columns."""
    names = [str(name).strip() for name in table.frame.columns]
    require_distinct(names, table.origin)
    if len(names) < 2 or len(table.frame) == 0:
        raise DataError(
            f"Expected rows of two columns or more in {table.origin}. "
            f"Found {len(table.frame)} x {len(names)} (rows x columns)."
        )
    return replace(table, frame=table.frame.set_axis(names, axis=1))
