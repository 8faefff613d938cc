"""What a split goes by: columns of groups and of times, or arrays with one value for every example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from polyarch.data.columns import Cells, cells_of
from polyarch.data.labels import Array
from polyarch.data.splits import GroupSplit, RandomSplit, Split, TimeSplit
from polyarch.errors import DataError, InvalidInput

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SplitKeys:
    """Groups, times or both, each by the name of a column, or as an array with one value for every example (N,)."""

    groups: str | ArrayLike | None = None
    times: str | ArrayLike | None = None

    @property
    def given(self) -> bool:
        """Whether there is something to split by."""
        return self.groups is not None or self.times is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to split by, which are no inputs."""
        return tuple(key for key in (self.groups, self.times) if isinstance(key, str))

    def split(self, count: int, origin: str, column: Callable[[str], Any] | None = None) -> Split:
        """The split of ``count`` examples.

        Args:
            origin: how error messages refer to the examples.
            column: gives the values of a column by its name, or raises; None for data without columns.
        """
        groups = times = None
        if self.groups is not None:
            _, cells, name = _values(self.groups, "groups", count, origin, column)
            groups = GroupSplit(torch.from_numpy(cells.codes), cells.words(), name)
        if self.times is not None:
            values, cells, name = _values(self.times, "times", count, origin, column)
            times = TimeSplit(torch.from_numpy(_seconds(cells, values, f"{name} of {origin}")), name)
        if times is not None and groups is not None:
            return TimeSplit.of_groups(times, groups)
        return times or groups or RandomSplit()


def _values(
    key: str | ArrayLike, kind: str, count: int, origin: str, column: Callable[[str], Any] | None
) -> tuple[pd.Series[Any], Cells, str]:
    """The value of every example, the same as cells, none of which is missing, and how error messages call them."""
    import pandas as pd

    if isinstance(key, str):
        if column is None:
            raise InvalidInput(f"Expected an array of {kind} for {origin}, which has no columns. Got {key!r}.")
        values, name = pd.Series(column(key), name=key), f"column {key!r}"
    else:
        values, name = pd.Series(np.asarray(key).reshape(-1), name=kind), f"the given {kind}"
    if len(values) != count:
        raise DataError(f"Expected {count} {kind}, one for every example of {origin}. Got {len(values)}.")
    cells = cells_of(values, origin)
    missing = np.flatnonzero(cells.codes < 0)
    if len(missing):
        raise DataError(f"Expected a value of {name} in every row of {origin}. Found none in row {missing[0] + 1}.")
    return values, cells, name


def _seconds(cells: Cells, values: pd.Series[Any], origin: str) -> Array:
    """(N,) float64: numbers as they are, dates in ISO 8601 as seconds since 1970.

    Other ways to write a date are refused: whether 03/04/2024 is in March or in April nobody can tell.
    """
    import pandas as pd

    if cells.are_numbers:
        return cells.as_numbers()
    dates = pd.to_datetime(values.astype(str).str.strip(), utc=True, format="ISO8601", errors="coerce")
    wrong = np.flatnonzero(dates.isna())
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"Expected numbers, or dates such as 2024-03-31, in {origin}. "
            f"Found {str(values.iloc[row])!r} in row {row + 1}."
        )
    return np.array((dates - pd.Timestamp(0, tz="UTC")).dt.total_seconds(), dtype=np.float64)
