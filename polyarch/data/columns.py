"""The columns of a table, and how a data frame becomes rows of numbers."""

from __future__ import annotations

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

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """A column of numbers, or of categories.

    Args:
        name: as in the file.
        categories: their names, a raw value being the index; None for numbers.
    """

    name: str
    categories: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files."""
        return {"name": self.name, "categories": None if self.categories is None else list(self.categories)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Column:
        """What ``to_dict`` gave."""
        categories = content["categories"]
        return cls(content["name"], None if categories is None else tuple(categories))


@dataclass(frozen=True)
class Cells:
    """The cells of one column: each is a code into the distinct values, -1 if missing.

    Args:
        codes: (N,)
        numbers: the distinct values as numbers, NaN where one is a text; infinity is kept.
        texts: the distinct values as they were written; None if the column is one of numbers.
    """

    codes: npt.NDArray[np.int64]
    numbers: Numbers
    texts: tuple[str, ...] | None = None

    @property
    def are_numbers(self) -> bool:
        """Whether all that are not missing are numbers."""
        return not np.isnan(self.numbers).any()

    def words(self) -> tuple[str, ...]:
        """The distinct values as texts; whole numbers without a point, as a file without gaps would show them."""
        if self.texts is not None:
            return self.texts
        return tuple(str(int(n)) if n.is_integer() and abs(n) < 2**53 else str(n) for n in self.numbers.tolist())

    def as_numbers(self) -> Numbers:
        """(N,), NaN where missing or a text."""
        return np.append(self.numbers, np.nan)[self.codes]

    def as_categories(self, categories: Sequence[str]) -> Numbers:
        """(N,) the index of the category, -1 if it is not among them, NaN if missing."""
        index = {category: position for position, category in enumerate(categories)}
        return np.array([*(index.get(word, -1) for word in self.words()), np.nan], dtype=np.float64)[self.codes]


def cells_of(series: pd.Series[Any], origin: str) -> Cells:
    """The cells of a column, whatever its type: numbers, truth values, dates (seconds since 1970), texts."""
    import pandas as pd

    types = pd.api.types
    if types.is_datetime64_any_dtype(series) or (
        types.is_object_dtype(series) and types.infer_dtype(series) in ("date", "datetime")
    ):
        series = (pd.to_datetime(series, utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    elif types.is_timedelta64_dtype(series):
        series = series.dt.total_seconds()
    if types.is_numeric_dtype(series) and not (types.is_bool_dtype(series) or types.is_complex_dtype(series)):
        codes, numbers = pd.factorize(series.to_numpy(dtype=np.float64, na_value=np.nan))
        return Cells(codes.astype(np.int64), np.asarray(numbers, dtype=np.float64))
    strange = _strange(series)
    if strange:
        raise DataError(
            f"Expected numbers, texts or dates in column {str(series.name)!r} of {origin}. Found {strange}."
        )
    codes, values = pd.factorize(series.astype(object))
    places = np.full(len(values) + 1, -1, dtype=np.int64)  # the last is that of code -1
    texts: dict[str, int] = {}
    for position, value in enumerate(values.tolist()):
        text = str(value).strip()
        if text not in MISSING_WORDS:
            places[position] = texts.setdefault(text, len(texts))  # " a" and "a" are one text
    return Cells(places[codes], np.array([_number(text) for text in texts], dtype=np.float64), tuple(texts))


def encode_rows(frame: pd.DataFrame, columns: Sequence[Column], *, origin: str = "the table") -> Tensor:
    """A data frame as (N, columns) float32: numbers, indices of categories (-1 if unknown), NaN where missing.

    Dates are seconds since 1970, which float32 keeps to about a minute.

    Args:
        frame: has all columns by name; others are ignored.
        origin: what sentences call the frame.
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
    """NaN if the text is no number."""
    if text.lower() in TRUTH_WORDS:
        return TRUTH_WORDS[text.lower()]
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return np.nan


def _strange(series: pd.Series[Any]) -> str | None:
    """The first value that is neither number nor text, such as a list."""
    import pandas as pd

    if isinstance(series.dtype, pd.StringDtype):
        return None
    for row, value in enumerate(series.tolist()):
        if isinstance(value, (bytes, complex)) or not isinstance(value, Hashable):
            return f"a {type(value).__name__} in row {row + 1}"
    return None
