from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from polyarch.data import Column, encode_rows
from polyarch.data.columns import cells_of
from polyarch.errors import DataError


def numbers(*values: Any, dtype: Any = None) -> list[float | None]:
    """A column of numbers as `encode_rows` sees it, None where missing."""
    encoded = encode_rows(pd.DataFrame({"c": pd.Series(list(values), dtype=dtype)}), [Column("c")])
    return [None if math.isnan(value) else value for value in encoded[:, 0].tolist()]


class TestNumbers:
    @pytest.mark.parametrize(
        ("values", "dtype", "expected"),
        [
            ([1, 2, 3], None, [1, 2, 3]),
            ([1.5, math.nan, -2], None, [1.5, None, -2]),
            ([True, False], None, [1, 0]),
            ([True, None, False], None, [1, None, 0]),
            ([True, None], "boolean", [1, None]),
            ([1, None, 3], "Int64", [1, None, 3]),
            (["1", " 2.5", "1e3", "-4"], None, [1, 2.5, 1000, -4]),
            (["1", "?", "NA", "", None, "7"], None, [1, None, None, None, None, 7]),
            (["true", "False"], None, [1, 0]),
            ([Decimal("1.25"), None], None, [1.25, None]),
            ([3, "4"], None, [3, 4]),
            ([7, 7, 8], "category", [7, 7, 8]),
            ([None, None], None, [None, None]),
        ],
    )
    def test_of_many_types(self, values: list[Any], dtype: Any, expected: list[float | None]) -> None:
        assert numbers(*values, dtype=dtype) == expected

    def test_dates_are_seconds_since_1970(self) -> None:
        assert numbers(pd.Timestamp("1970-01-02"), pd.NaT) == [86400, None]
        assert numbers(pd.Timestamp("1970-01-02", tz="Europe/Berlin"))[0] == 86400 - 3600
        assert numbers(date(1970, 1, 3), None) == [2 * 86400, None]
        assert numbers(datetime(1970, 1, 1, 1, tzinfo=UTC), dtype=object) == [3600]
        assert numbers(pd.Timedelta(minutes=2)) == [120]

    @pytest.mark.parametrize(
        ("values", "complaint"),
        [
            ([1.0, math.inf], r"finite numbers in column 'c' of the table\. Found 'inf' in row 2"),
            (["1", "-inf"], r"finite numbers in column 'c' of the table\. Found '-inf' in row 2"),
            ([1.0, 0.0, 1e39], r"numbers below 3\.4e38 in column 'c' of the table\. Found '1e\+39' in row 3"),
            (["1", "two"], r"Expected numbers in column 'c' of the table\. Found 'two' in row 2"),
            (["1_000", "2"], r"Found '1_000' in row 1"),
            ([[1], [2]], r"numbers, texts or dates in column 'c' of the table\. Found a list in row 1"),
            ([1, b"x"], r"Found a bytes in row 2"),
            ([1 + 2j], r"Found a complex in row 1"),
        ],
    )
    def test_what_is_no_usable_number(self, values: list[Any], complaint: str) -> None:
        with pytest.raises(DataError, match=complaint):
            numbers(*values)


class TestCategories:
    COLUMN = Column("c", ("b", "a", "1"))

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            (["a", "b", "zebra"], [1, 0, -1]),
            ([" a ", None, "?"], [1, None, None]),
            ([1, 2], [2, -1]),
            ([1.0, math.nan], [2, None]),
            (["1", "A"], [2, -1]),
        ],
    )
    def test_by_name(self, values: list[Any], expected: list[float | None]) -> None:
        encoded = encode_rows(pd.DataFrame({"c": values}), [self.COLUMN])[:, 0].tolist()
        assert [None if math.isnan(value) else value for value in encoded] == expected

    def test_pandas_categories(self) -> None:
        frame = pd.DataFrame({"c": pd.Series(["a", None, "b"], dtype="category")})
        assert encode_rows(frame, [self.COLUMN])[[0, 2], 0].tolist() == [1, 0]

    def test_order_of_the_columns_is_the_callers(self) -> None:
        frame = pd.DataFrame({"x": [1, 2], "extra": ["q", "r"], "c": ["a", "b"]})
        encoded = encode_rows(frame, [self.COLUMN, Column("x")])
        assert encoded.tolist() == [[1, 1], [0, 2]]
        assert encoded.dtype == torch.float32

    def test_columns_called_by_numbers(self) -> None:
        assert encode_rows(pd.DataFrame({0: [5], 1: [6]}), [Column("1")]).tolist() == [[6]]


def test_missing_columns_are_named() -> None:
    frame = pd.DataFrame({"a": [1]})
    with pytest.raises(DataError, match=r"columns 'b', 'c' in new\.csv\. Found none"):
        encode_rows(frame, [Column("a"), Column("b"), Column("c")], origin="new.csv")


def test_column_that_is_there_twice() -> None:
    frame = pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"])
    with pytest.raises(DataError, match=r"one column 'a' in the table\. Found 2"):
        encode_rows(frame, [Column("a")])


def test_no_rows() -> None:
    assert encode_rows(pd.DataFrame({"a": []}), [Column("a")]).shape == (0, 1)


def test_words_of_whole_numbers_have_no_point() -> None:
    assert cells_of(pd.Series([2.0, math.nan, 2.5, 2.0]), "t").words() == ("2", "2.5")
