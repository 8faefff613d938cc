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
from polyarch.data.targets import TargetKind, recognised, target_encoding
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
    task: TargetKind | None = None,
    test_share: float = 0.2,
) -> Dataset:
    """Builds a data set from the rows of a table.

    Args:
        test: the test rows; by default ``test_share`` of every class is split off.
        target: the column to predict, or several, separated by commas; by default the column named label, target, class
            or y, otherwise the last one.
        task: what the target is; by default what its values look like, see `recognised`.
    """
    train, test = _named_by_text(train), test and _named_by_text(test)
    wanted = target_columns(list(train.frame.columns), target, train.origin)
    values = _targets(train, wanted)
    origin = f"column {', '.join(map(repr, wanted))} of {train.origin}"
    encoding = target_encoding(values, origin, kind=task, names=wanted, place="row")
    is_classes = isinstance(encoding, ClassLabels)
    targets = encoding.encode(values, train.origin if is_classes else origin, "row")
    if is_classes:
        check_counts(targets, encoding.names, train.origin, fewest=2 if test else 3)
    rows = torch.arange(len(targets))
    if test is None:
        rows, test_rows = stratified_indices(targets, test_share, seed=0)
    columns, notes = infer_columns(train, wanted, rows)
    if not is_classes and task is None:
        notes = (_recognised(encoding.names, values), *notes)
    inputs = encode_rows(train.frame, columns, origin=train.origin)
    count = len(encoding.names) if is_classes else 0
    train_data = TableData(inputs[rows], targets[rows], count)
    if test is None:
        test_data = TableData(inputs[test_rows], targets[test_rows], count)
    else:
        test_targets = encoding.encode(_targets(test, wanted), test.origin, "row")
        test_data = TableData(encode_rows(test.frame, columns, origin=test.origin), test_targets, count)
    names, others = (encoding.names, ()) if is_classes else ((), encoding.names)
    return Dataset(name, train_data, test_data, names, columns, (*train.notes, *notes), others)


def _recognised(names: Sequence[str], values: Array) -> str:
    """What was taken for a regression or for labels, and how to say otherwise."""
    if len(names) > 1:
        kind = (
            "labels that are present or not"
            if recognised(values, in_table=True) == "multi-label"
            else "numbers: a regression"
        )
        return f"Columns {', '.join(map(repr, names))} are {kind}; --task says otherwise."
    distinct = len(np.unique(values))
    return (
        f"Column {names[0]!r} has {distinct:,} different numbers: a regression; --task classification says otherwise."
    )


def target_columns(names: Sequence[str], target: str | None, origin: str) -> tuple[str, ...]:
    """The columns to predict: one, or those separated by commas where no column has that name."""
    if target is not None and target not in names and "," in target:
        parts = tuple(part.strip() for part in target.split(","))
        require_distinct(parts, f"the target {target!r}")
        return tuple(target_column(names, part, origin) for part in parts)
    return (target_column(names, target, origin),)


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


def infer_columns(
    table: TableSource, targets: Sequence[str], train_rows: Tensor
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns other than the targets, and notes on those that were left out.

    All rows decide whether a column is numeric; the training rows decide its categories and whether it varies.
    """
    columns, notes = [], []
    rows = train_rows.numpy()
    for name in table.frame.columns:
        if name in targets:
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
        raise DataError(f"Expected a column besides {targets[0]!r} that varies in {table.origin}. Found none.")
    return tuple(columns), tuple(notes)


def _frequent(cells: Cells, rows: Array) -> tuple[str, ...]:
    """The most frequent texts; ties are sorted by name."""
    words = cells.words()
    codes = cells.codes[rows]
    counts = np.bincount(codes[codes >= 0], minlength=len(words)).tolist()
    seen = sorted((-count, word) for count, word in zip(counts, words, strict=True) if count)
    return tuple(word for _, word in seen[:MOST_CATEGORIES])


def _targets(table: TableSource, targets: Sequence[str]) -> Array:
    """(N,) of one column, (N, T) of several."""
    columns = [_labels(table, target, truths_are_numbers=len(targets) > 1) for target in targets]
    return columns[0] if len(columns) == 1 else np.stack(columns, 1)


def _labels(table: TableSource, target: str, *, truths_are_numbers: bool) -> Array:
    """(N,) labels: whole numbers, fractions or texts; the words true and false are texts unless said otherwise."""
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
    if cells.are_numbers and (truths_are_numbers or not written_truths):
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
