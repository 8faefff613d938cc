"""Specifications of figures become pictures that show what they were given."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from polyarch_experiments.figures import Spec, heat_grid, lines, scatter, side_by_side, write_figures

ROWS = [
    {"x": x, "series": name, "mean": slope * x, "low": slope * x - 0.5, "high": slope * x + 0.5}
    for name, slope in (("up", 1.0), ("down", -1.0))
    for x in (1, 2, 3, 4)
]


def drawn(spec: Spec, folder: Path) -> NDArray[np.int16]:
    """The colours of a picture: (height, width, 3)."""
    (path,) = write_figures({"one": spec}, folder)
    assert path == folder / "one.png"
    with Image.open(io.BytesIO(path.read_bytes())) as picture:
        return np.asarray(picture.convert("RGB")).astype(np.int16)


def share_near(picture: NDArray[np.int16], colour: tuple[int, int, int]) -> float:
    return float((np.abs(picture - np.array(colour)).max(axis=2) < 12).mean())


BLUE, ORANGE = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)


def test_lines_have_a_colour_per_series_and_a_band_only_where_there_is_one(tmp_path: Path) -> None:
    without = [{key: value for key, value in row.items() if key not in ("low", "high")} for row in ROWS]
    banded, bare = lines(ROWS, "steps", "value", log=True), lines(without, "steps", "value", log=True)
    assert [layer["mark"]["type"] for layer in banded["layer"]] == ["area", "line"]
    assert [layer["mark"]["type"] for layer in bare["layer"]] == ["line"]
    picture, plain = drawn(banded, tmp_path / "band"), drawn(bare, tmp_path / "bare")
    for colour in (BLUE, ORANGE):
        assert share_near(picture, colour) > 0.0005 and share_near(plain, colour) > 0.0005
    white = share_near(plain, (255, 255, 255))
    assert share_near(picture, (255, 255, 255)) < white - 0.01  # the bands


def test_lines_stop_at_the_ends_of_the_axis(tmp_path: Path) -> None:
    """Only the series that rises is above 0."""
    picture = drawn(lines(ROWS, "steps", "value", domain=(0.5, 5)), tmp_path)
    whole = drawn(lines(ROWS, "steps", "value"), tmp_path / "whole")
    assert share_near(picture, BLUE) > 0.0005
    assert share_near(picture, ORANGE) < share_near(whole, ORANGE) / 3  # the legend is left


def test_scatter_has_a_point_per_row(tmp_path: Path) -> None:
    rows = [{"x": x, "y": x * x, "series": "even" if x % 2 == 0 else "odd"} for x in range(40)]
    few, many = (drawn(scatter(rows[:count], "score", "truth"), tmp_path / str(count)) for count in (10, 40))
    grey = [float((picture.max(axis=2) - picture.min(axis=2) > 20).mean()) for picture in (few, many)]
    assert grey[1] > 2 * grey[0] > 0
    assert scatter(rows, "score", "truth", series="kind")["encoding"]["color"]["title"] == "kind"


def test_heat_grids_are_darker_where_values_are_larger_whatever_the_measure(tmp_path: Path) -> None:
    """Two grids with the same order and other units beside each other: cells in the same place have the same colour."""
    values = {("64", "0.1"): 0.2, ("128", "0.1"): 0.4, ("64", "0.01"): 0.3, ("128", "0.01"): 0.6}
    grids = [
        heat_grid([{"x": x, "y": y, "value": scale * value} for (x, y), value in values.items()], "batch", "rate", name)
        for scale, name in ((1, "Spearman"), (100, "top 10"))
    ]
    shades = [[row["shade"] for row in grid["data"]["values"]] for grid in grids]
    assert shades[0] == pytest.approx([0, 0.5, 0.25, 1]) and shades[1] == pytest.approx(shades[0])
    picture = drawn(side_by_side(*grids), tmp_path)
    for colour in ((0xF3, 0xF7, 0xFC), (0x8F, 0xBD, 0xE6)):
        columns = np.flatnonzero((np.abs(picture - np.array(colour)).max(axis=2) < 3).sum(axis=0) > 60)
        assert columns.min() < picture.shape[1] / 2 < columns.max()
    (one,) = heat_grid([{"x": "a", "y": "b", "value": 3.0}], "x", "y", "all equal")["data"]["values"]
    assert one["shade"] == 0
