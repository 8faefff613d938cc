"""Scaling by quantiles against numpy and scipy, and that it is kept in files."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from polyarch.data import Column, Dataset, TableData, TableEncoding, TensorData, preprocessing_from
from polyarch.data.quantile_scaling import LEVELS, has_heavy_tail, piecewise_linear, quantile_knots
from polyarch.errors import DataError

COLUMNS = (Column("heavy"), Column("class", ("a", "b")), Column("few"), Column("constant"))


def rows(count: int) -> torch.Tensor:
    """A heavy tail with missing values, categories, few distinct numbers, and a constant."""
    random = np.random.default_rng(0)
    heavy = np.exp(3 * random.standard_normal(count))
    heavy[::17] = np.nan
    parts = [heavy, random.integers(0, 2, count), random.integers(0, 3, count), np.full(count, 7.0)]
    return torch.from_numpy(np.stack(parts, 1).astype(np.float32))


def test_knots_are_quantiles_of_the_data_and_of_a_normal_distribution() -> None:
    values = np.random.default_rng(0).exponential(size=1000)
    levels = (np.arange(LEVELS) + 0.5) / LEVELS
    found = np.array(quantile_knots(values))
    np.testing.assert_allclose(found[:, 0], np.quantile(values, levels), rtol=1e-6)
    np.testing.assert_allclose(found[:, 1], stats.norm.ppf(levels), rtol=1e-6)


def test_the_map_interpolates_and_is_constant_outside() -> None:
    random = np.random.default_rng(1)
    columns = [random.exponential(size=500), random.integers(0, 4, 500).astype(float), np.full(500, 2.0)]
    knots = [quantile_knots(column) for column in columns]
    x = np.linspace(-1, 9, 101)
    found = piecewise_linear(torch.from_numpy(np.stack([x] * 3, 1)), knots).numpy()
    for place, column in enumerate(knots):
        points = np.array(column)
        np.testing.assert_allclose(found[:, place], np.interp(x, points[:, 0], points[:, 1]), atol=1e-9)


def test_scaled_numbers_are_about_normal() -> None:
    train = TableData(rows(3000), torch.zeros(3000, dtype=torch.int64), 1)
    encoding = TableEncoding.of(train, COLUMNS, numbers="quantile")
    features = encoding(rows(3000))
    assert features.shape == (3000, *encoding.output_shape((4,)))
    heavy = features[:, 0].double().numpy()
    assert abs(heavy.std() - 1) < 0.1 and abs(stats.skew(heavy)) < 0.1
    assert len(features[:, 1].unique()) == 3  # few distinct numbers stay apart
    assert features[:, 2].unique().numel() == 1
    standard = TableEncoding.of(train, COLUMNS)(rows(3000))
    torch.testing.assert_close(features[:, 3:], standard[:, 3:])  # marks and categories


def test_files_keep_the_map() -> None:
    train = TableData(rows(200), torch.zeros(200, dtype=torch.int64), 1)
    encoding = TableEncoding.of(train, COLUMNS, numbers="quantile")
    again = preprocessing_from(encoding.to_dict())
    assert again == encoding and again(rows(50)).equal(encoding(rows(50)))
    assert "knots" not in TableEncoding.of(train, COLUMNS).to_dict()


def test_only_tables_have_it() -> None:
    data = TensorData(torch.rand(4, 2), torch.zeros(4, dtype=torch.int64), 1)
    with pytest.raises(DataError, match="Expected a table for numbers that are scaled by quantile"):
        Dataset("vectors", data, data, ("a",)).preprocessing(data, numbers="quantile")


def test_heavy_tails_are_told_from_others() -> None:
    random = np.random.default_rng(0)
    assert has_heavy_tail(random.exponential(size=2000))
    assert not has_heavy_tail(random.standard_normal(2000))
    assert not has_heavy_tail(random.exponential(size=2000).round())  # few distinct values
    assert not has_heavy_tail(np.full(2000, 1.0))
