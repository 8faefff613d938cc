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
from polyarch.data.labels import Array, check_counts
from polyarch.data.split_keys import SplitKeys
from polyarch.data.splits import Split
from polyarch.data.targets import TargetKind, known_encoding, names_of, recognised, target_encoding
from polyarch.errors import DataError, InvalidInput, closest_name

if TYPE_CHECKING:
    import pandas as pd

TARGET_NAMES = ("label", "target", "class", "y")
MOST_CATEGORIES = 64
"""The most categories of one column; less frequent ones count as unknown."""
MOSTLY = 0.9
HANDFUL = 5
"""A column with at least this share of numbers, so many of them different, was likely meant as one of numbers."""


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
    task: TargetKind | None = None,
    test_share: float | None = 0.2,
    keys: SplitKeys | None = None,
) -> Dataset:
    """Builds a data set from the rows of a table.

    Args:
        test: the test rows; by default ``test_share`` of the others is held out.
        valid: the validation rows, if there are any.
        target: the column to predict, or several, separated by commas; by default the column named label, target, class
            or y, otherwise the last one.
        task: what the target is; by default what its values look like, see `recognised`.
        test_share: None if test rows come later.
        keys: what rows are held out by; their column is no input.
    """
    train, keys = _named_by_text(train), keys or SplitKeys()
    others = [column for column in train.frame.columns if column not in keys.columns]
    wanted = target_columns(others, target, train.origin)
    values = _targets(train, wanted)
    origin = f"column {', '.join(map(repr, wanted))} of {train.origin}"
    encoding = target_encoding(values, origin, kind=task, names=wanted, place="row")
    targets = encoding.encode(values, train.origin, "row")
    class_names, target_names = names_of(encoding)
    share = None if test else test_share
    if class_names:
        check_counts(targets, class_names, train.origin, fewest=3 if share else 2 if test else 1)
    split = keys.split(len(targets), train.origin, partial(key_column, train))
    rows, test_rows = held_out_rows(split, targets, share, class_names)
    columns, notes = infer_columns(train, (*wanted, *keys.columns), rows)
    if target_names and task is None:
        notes = (_recognised(target_names, values), *notes)
    examples = TableData(encode_rows(train.frame, columns, origin=train.origin), targets, len(class_names))
    data = Dataset(
        name,
        examples.subset(rows),
        examples.subset(test_rows),
        class_names,
        columns,
        (*train.notes, *notes),
        split=split.subset(rows),
        test_origin=None if share is None else split.in_words(share),
        target=wanted[0] if class_names else None,
        left_out=tuple(set(train.frame.columns) - {column.name for column in columns}),
        target_names=target_names,
    )
    if test is not None:
        test_data, split = rows_like(test, data, keys)
        data = replace(data, test=test_data, split=split, test_origin=OF_SOURCE)
    if valid is not None:
        valid_data, split = rows_like(valid, data, keys)
        data = replace(data, valid=valid_data, split=split)
    return data


def rows_like(table: TableSource, data: Dataset, keys: SplitKeys) -> tuple[TableData, Split]:
    """Rows with the targets and columns of the data, and the split of the data once these are held out."""
    table = _named_by_text(table)
    wanted = data.target_names or ((data.target,) if data.target else ())
    if not wanted:
        raise InvalidInput(f"Expected training data with a target column, to read {table.origin}. Got none.")
    encoding = known_encoding(data.kind, data.class_names, data.target_names)
    targets = encoding.encode(_targets(table, wanted), table.origin, "row")
    known = {column.name for column in data.columns} | set(data.left_out)
    unknown = [name for name in table.frame.columns if name not in known]
    if unknown:
        raise DataError(f"Expected only columns of the training data in {table.origin}. Found {unknown[0]!r}.")
    rows = TableData(encode_rows(table.frame, data.columns, origin=table.origin), targets, data.classes)
    if not keys.columns:
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


def _recognised(names: Sequence[str], values: Array) -> str:
    """What was taken for a regression or for labels, and how to say otherwise."""
    if len(names) > 1:
        are_labels = recognised(values, in_table=True) == "multi-label"
        kind = "labels that are present or not" if are_labels else "numbers: a regression"
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
            notes.extend(_not_numbers(cells, name))
            distinct = len(np.unique(codes[codes >= 0]))
            if distinct > len(categories):
                notes.append(
                    f"Column {name!r} has {distinct} categories: all but the {MOST_CATEGORIES} most frequent "
                    "count as unknown."
                )
    if not columns:
        raise DataError(f"Expected a column besides {aside[0]!r} that varies in {table.origin}. Found none.")
    return tuple(columns), tuple(notes)


def _not_numbers(cells: Cells, name: str) -> list[str]:
    """A note on the cells that keep a column from being one of numbers, if they are few."""
    present = cells.codes >= 0
    bad = np.flatnonzero(present & np.isnan(cells.as_numbers()))
    if len(bad) > (1 - MOSTLY) * present.sum() or np.isfinite(cells.numbers).sum() < HANDFUL:
        return []
    others = f", and {len(bad) - 1:,} more of its cells are none" if len(bad) > 1 else ""
    word = cells.words()[cells.codes[bad[0]]]
    return [f"Column {name!r}: row {bad[0] + 1} {word!r} is no number{others}; taken as categories."]


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
    if cells.are_large_integers:
        whole = [int(text) for text in cells.words()]
        fits = all(-(2**63) <= value < 2**63 for value in whole)
        return np.array(whole, dtype=np.int64 if fits else np.str_)[cells.codes]
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
