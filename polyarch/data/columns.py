"""The columns of a table, and the conversion of data frames to rows of numbers."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polyarch.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

MISSING_WORDS = frozenset({"", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "None", "NaN", "nan"})
TRUTH_WORDS = {"true": 1.0, "false": 0.0}

WHOLE_NUMBER = re.compile(r"[+-]?\d+")
EXACT = 2.0**53
"""Whole numbers from here on are not all different in float64."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """A column of numbers, or of categories, which raw values are indices of."""

    name: str
    categories: tuple[str, ...] | None = None  # None for numbers

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to write to a file."""
        return {"name": self.name, "categories": None if self.categories is None else list(self.categories)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Column:
        """Reads the output of ``to_dict``."""
        categories = content["categories"]
        return cls(content["name"], None if categories is None else tuple(categories))


@dataclass(frozen=True)
class Cells:
    """The cells of one column, each stored as an index into the distinct values."""

    codes: npt.NDArray[np.int64]  # (N,) indices, -1 for missing cells
    numbers: Numbers  # the distinct values as numbers, NaN for a value that is not a number; infinity is kept
    texts: tuple[str, ...] | None = None  # the distinct values as written; None for numbers that float64 holds exactly

    @property
    def are_numbers(self) -> bool:
        """Whether all cells that are not missing hold numbers."""
        return not np.isnan(self.numbers).any()

    def words(self) -> tuple[str, ...]:
        """The distinct values as texts; whole numbers without a decimal point, as if no cell were missing."""
        if self.texts is not None:
            return self.texts
        return tuple(str(int(n)) if n.is_integer() and abs(n) < EXACT else str(n) for n in self.numbers.tolist())

    @property
    def are_large_integers(self) -> bool:
        """Whether all cells are whole numbers, some of which float64 cannot tell apart, such as long ids."""
        if self.texts is None or not all(WHOLE_NUMBER.fullmatch(text) for text in self.texts):
            return False
        return bool((np.abs(self.numbers) >= EXACT).any())

    def as_numbers(self) -> Numbers:
        """(N,) numbers, NaN for cells that are missing or hold no number."""
        return np.append(self.numbers, np.nan)[self.codes]

    def as_categories(self, categories: Sequence[str]) -> Numbers:
        """(N,) category indices, -1 for unknown categories, NaN for missing cells."""
        index = {category: position for position, category in enumerate(categories)}
        return np.array([*(index.get(word, -1) for word in self.words()), np.nan], dtype=np.float64)[self.codes]


def cells_of(series: pd.Series[Any], origin: str) -> Cells:
    """Reads a column of numbers, booleans, dates (as seconds since 1970) or texts."""
    import pandas as pd

    types = pd.api.types
    if types.is_datetime64_any_dtype(series) or (
        types.is_object_dtype(series) and types.infer_dtype(series) in ("date", "datetime")
    ):
        series = (pd.to_datetime(series, utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    elif types.is_timedelta64_dtype(series):
        series = series.dt.total_seconds()
    if types.is_integer_dtype(series) and (np.abs(series.dropna().to_numpy(dtype=np.float64)) >= EXACT).any():
        codes, values = pd.factorize(series.astype(object))
        return Cells(codes.astype(np.int64), np.asarray(values, dtype=np.float64), tuple(map(str, values)))
    if types.is_numeric_dtype(series) and not (types.is_bool_dtype(series) or types.is_complex_dtype(series)):
        codes, numbers = pd.factorize(series.to_numpy(dtype=np.float64, na_value=np.nan))
        return Cells(codes.astype(np.int64), np.asarray(numbers, dtype=np.float64))
    found = _unreadable(series)
    if found:
        raise DataError(f"Expected numbers, texts or dates in column {str(series.name)!r} of {origin}. Found {found}.")
    codes, values = pd.factorize(series.astype(object))
    places = np.full(len(values) + 1, -1, dtype=np.int64)  # the last entry stands for missing cells, code -1
    texts: dict[str, int] = {}
    for position, value in enumerate(values.tolist()):
        text = str(value).strip()
        if text not in MISSING_WORDS:
            places[position] = texts.setdefault(text, len(texts))  # " a" and "a" are the same text
    return Cells(places[codes], np.array([_number(text) for text in texts], dtype=np.float64), tuple(texts))


def encode_rows(frame: pd.DataFrame, columns: Sequence[Column], *, origin: str = "the table") -> Tensor:
    """A data frame as (N, columns) float32: numbers, category indices (-1 if unknown), NaN for missing cells.

    Dates become seconds since 1970, which float32 resolves to about a minute.

    Args:
        frame: holds all these columns by name; others are ignored.
        origin: how error messages refer to the frame.
    """
    names = [str(name) for name in frame.columns]
    absent = [column.name for column in columns if column.name not in names]
    if absent:
        raise DataError(f"Expected columns {', '.join(map(repr, absent))} in {origin}. Found none of that name.")
    encoded = np.empty((len(frame), len(columns)), dtype=np.float32)
    for position, column in enumerate(columns):
        if names.count(column.name) > 1:
            raise DataError(f"Expected one column {column.name!r} in {origin}. Found {names.count(column.name)}.")
        cells = cells_of(frame.iloc[:, names.index(column.name)], origin)
        if column.categories is None:
            encoded[:, position] = _checked_numbers(cells, column.name, origin)
        else:
            encoded[:, position] = cells.as_categories(column.categories)
    return torch.from_numpy(encoded)


def require_distinct(names: Sequence[str], origin: str) -> None:
    """Refuses column names that occur more than once."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"Expected distinct column names in {origin}. Found {repeated[0]!r} twice.")


def _checked_numbers(cells: Cells, name: str, origin: str) -> Numbers:
    numbers = cells.as_numbers()
    present = cells.codes >= 0
    for bad, expected in (
        (present & np.isnan(numbers), "numbers"),
        (np.isinf(numbers), "finite numbers"),
        (np.abs(numbers) > np.finfo(np.float32).max, "numbers below 3.4e38"),
    ):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            word = cells.words()[cells.codes[row]]
            raise DataError(f"Expected {expected} in column {name!r} of {origin}. Found {word!r} in row {row + 1}.")
    return numbers


def _number(text: str) -> float:
    """The number that a text stands for; NaN if it stands for none."""
    if text.lower() in TRUTH_WORDS:
        return TRUTH_WORDS[text.lower()]
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return np.nan


def _unreadable(series: pd.Series[Any]) -> str | None:
    """Describes the first value that is neither a number nor a text, such as a list."""
    import pandas as pd

    if isinstance(series.dtype, pd.StringDtype):
        return None
    for row, value in enumerate(series.tolist()):
        if isinstance(value, (bytes, complex)) or not isinstance(value, Hashable):
            return f"a {type(value).__name__} in row {row + 1}"
    return None
