"""Figures of experiments: Vega-Lite specifications made from results, and their pictures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyarch.errors import MissingExtra
from polyarch.files import write_atomically

Spec = dict[str, Any]
Row = dict[str, Any]

WIDTH, HEIGHT = 360, 220
CONFIG: Spec = {
    "background": "white",
    "font": "sans-serif",
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "gridColor": "#e6e6e6"},
    "legend": {"labelFontSize": 11, "titleFontSize": 12, "orient": "top"},
    "title": {"fontSize": 13, "anchor": "start"},
    "range": {"category": ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]},
}


def summary(values: Sequence[float]) -> Row:
    """Mean, and mean minus and plus the standard deviation over seeds."""
    mean = statistics.fmean(values)
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": mean, "low": mean - std, "high": mean + std}


def with_spread(
    rows: Iterable[Row], x: str, y: str, *, series: str | None = None, log: bool = False, title: str = ""
) -> Spec:
    """Means joined by a line with bars of one standard deviation; rows have ``x``, ``mean``, ``low``, ``high``.

    Args:
        x, y: titles of the axes.
        series: the title of the legend; rows then have ``series``.
        log: whether the horizontal axis is logarithmic.
    """
    scale = {"type": "log"} if log else {"zero": False}
    encoding: Spec = {"x": {"field": "x", "type": "quantitative", "title": x, "scale": scale}}
    if series is not None:
        encoding["color"] = {"field": "series", "type": "nominal", "title": series or None, "sort": None}
    vertical = {"type": "quantitative", "title": y, "scale": {"zero": False}}
    return _panel(
        title,
        encoding,
        list(rows),
        [
            {
                "mark": {"type": "rule", "opacity": 0.6},
                "encoding": {"y": {**vertical, "field": "low"}, "y2": {"field": "high"}},
            },
            {"mark": {"type": "line", "point": True}, "encoding": {"y": {**vertical, "field": "mean"}}},
        ],
    )


def bars_and_points(bars: Iterable[Row], points: Iterable[Row], x: str, bar: str, point: str, title: str = "") -> Spec:
    """Bars on the left axis and points with spread on the right one, over the same horizontal axis."""
    horizontal = {"field": "x", "type": "ordinal", "title": x, "axis": {"labelAngle": 0, "labelOverlap": True}}

    def right(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "title": point, "scale": {"zero": False}}

    return {
        "title": title,
        "width": WIDTH,
        "height": HEIGHT,
        "encoding": {"x": horizontal},
        "resolve": {"scale": {"y": "independent"}},
        "layer": [
            {
                "data": {"values": list(bars)},
                "mark": {"type": "bar", "color": "#56b4e9", "opacity": 0.7},
                "encoding": {"y": {"field": "mean", "type": "quantitative", "title": bar}},
            },
            {
                "data": {"values": list(points)},
                "layer": [
                    {
                        "mark": {"type": "rule", "color": "#d55e00"},
                        "encoding": {"y": right("low"), "y2": {"field": "high"}},
                    },
                    {"mark": {"type": "point", "color": "#d55e00", "filled": True}, "encoding": {"y": right("mean")}},
                ],
            },
        ],
    }


def side_by_side(*specs: Spec, columns: int = 2) -> Spec:
    """Several in one picture, each with its own scales."""
    return {"concat": list(specs), "columns": columns, "resolve": {"scale": {"color": "shared"}}}


def grouped_bars(rows: Iterable[Row], x: str, y: str, *, series: str, title: str = "") -> Spec:
    """Bars of several series beside each other; rows have ``x``, ``series``, ``mean``, ``low``, ``high``."""
    encoding = {
        "x": {"field": "x", "type": "nominal", "title": x or None, "sort": None, "axis": {"labelAngle": 0}},
        "xOffset": {"field": "series", "type": "nominal", "sort": None},
    }
    colour = {"field": "series", "type": "nominal", "title": series or None, "sort": None}
    return _panel(
        title,
        encoding,
        list(rows),
        [
            {
                "mark": {"type": "bar", "opacity": 0.8},
                "encoding": {"y": {"field": "mean", "type": "quantitative", "title": y}, "color": colour},
            },
            {
                "mark": {"type": "rule"},
                "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
            },
        ],
    )


def _panel(title: str, encoding: Spec, rows: list[Row], layer: list[Spec]) -> Spec:
    return {
        "data": {"values": rows},
        "title": title,
        "width": WIDTH,
        "height": HEIGHT,
        "encoding": encoding,
        "layer": layer,
    }


def write_figures(specs: Mapping[str, Spec], folder: Path) -> list[Path]:
    """One PNG per specification; needs the ``report`` extra."""
    try:
        import vl_convert
    except ImportError:
        raise MissingExtra("Drawing figures", "report") from None
    written = []
    for name, spec in specs.items():
        whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": CONFIG, **spec}
        path = folder / f"{name}.png"
        write_atomically(path, vl_convert.vegalite_to_png(whole, scale=1.2))
        written.append(path)
    return written
