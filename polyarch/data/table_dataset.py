"""Data sets from data frames: finds the label column, infers the other columns and splits off test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from polyarch.data.columns import TRUTH_WORDS, Cells, Column, cells_of, encode_rows, require_distinct
from polyarch.data.dataset import OF_SOURCE, Dataset, held_out_rows
from polyarch.data.examples import TableData
from polyarch.data.labels import Array, ClassLabels, check_counts, encode_by_name
from polyarch.data.split_keys import SplitKeys
from polyarch.data.splits import Split
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
    valid: TableSource | None = None,
    target: str | None = None,
    test_share: float | None = 0.2,
    keys: SplitKeys | None = None,
) -> Dataset:
    """Builds a data set from the rows of a table.

    Args:
        test: the test rows; by default ``test_share`` of the others is held out.
        valid: the validation rows, if there are any.
        target: the label column; by default the column named label, target, class or y, otherwise the last one.
        test_share: None if test rows come later.
        keys: what rows are held out by; their column is no input.
    """
    train, keys = _named_by_text(train), keys or SplitKeys()
    names = [column for column in train.frame.columns if column != keys.column]
    target = target_column(names, target, train.origin)
    labels = _labels(train, target)
    classes = ClassLabels.of(labels, f"column {target!r} of {train.origin}", "row")
    targets = classes.encode(labels, train.origin, "row")
    share = None if test else test_share
    check_counts(targets, classes.names, train.origin, fewest=3 if share else 2 if test else 1)
    split = keys.split(len(targets), train.origin, partial(key_column, train))
    rows, test_rows = held_out_rows(split, targets, share, classes.names)
    columns, notes = infer_columns(train, (target, keys.column), rows)
    examples = TableData(encode_rows(train.frame, columns, origin=train.origin), targets, len(classes.names))
    data = Dataset(
        name,
        examples.subset(rows),
        examples.subset(test_rows),
        classes.names,
        columns,
        (*train.notes, *notes),
        split=split.subset(rows),
        test_origin=None if share is None else split.in_words(share),
        target=target,
        left_out=tuple(set(train.frame.columns) - {column.name for column in columns}),
    )
    if test is not None:
        test_data, split = rows_like(test, data, keys)
        data = replace(data, test=test_data, split=split, test_origin=OF_SOURCE)
    if valid is not None:
        valid_data, split = rows_like(valid, data, keys)
        data = replace(data, valid=valid_data, split=split)
    return data


def rows_like(table: TableSource, data: Dataset, keys: SplitKeys) -> tuple[TableData, Split]:
    """Rows with the classes and columns of the data, and the split of the data once these are held out."""
    table = _named_by_text(table)
    if data.target is None:
        raise InvalidInput(f"Expected training data with a label column, to read {table.origin}. Got none.")
    targets = encode_by_name(_labels(table, data.target), data.class_names, table.origin, "row")
    known = {column.name for column in data.columns} | set(data.left_out)
    unknown = [name for name in table.frame.columns if name not in known]
    if unknown:
        raise DataError(f"Expected only columns of the training data in {table.origin}. Found {unknown[0]!r}.")
    rows = TableData(encode_rows(table.frame, data.columns, origin=table.origin), targets, data.classes)
    if keys.column is None:
        return rows, data.split
    other = keys.split(len(rows), table.origin, partial(key_column, table))
    return rows, data.split.beside(other, table.origin)


def key_column(table: TableSource, name: str) -> pd.Series[Any]:
    """The column that rows are held out by."""
    names = list(table.frame.columns)
    if name not in names:
        hint = closest_name(name, names)
        raise InvalidInput(f"Expected a column of {table.origin} to split by. Got {name!r}.{hint}")
    return table.frame[name]


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
    table: TableSource, aside: Sequence[str | None], train_rows: Tensor
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns but for those set ``aside``, the label first among them, and notes on those that were left out.

    All rows decide whether a column is numeric; the training rows decide its categories and whether it varies.
    """
    columns, notes = [], []
    rows = train_rows.numpy()
    for name in table.frame.columns:
        if name in aside:
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
        raise DataError(f"Expected a column besides {aside[0]!r} that varies in {table.origin}. Found none.")
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
