"""Figures of experiments: Vega-Lite specifications made from results, and their pictures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyarch.files import write_atomically

Spec = dict[str, Any]
Row = dict[str, Any]

WIDTH, HEIGHT = 360, 220
GROUP_WIDTH = 85
"""Of a group of bars, with room for its name."""
CONFIG: Spec = {
    "background": "white",
    "font": "sans-serif",
    "lineBreak": "\n",
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "gridColor": "#e6e6e6"},
    "legend": {"labelFontSize": 11, "titleFontSize": 12, "orient": "top"},
    "title": {"fontSize": 13, "anchor": "start"},
    "range": {"category": ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]},
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
    values = list(rows)
    encoding = {
        "x": {"field": "x", "type": "nominal", "title": x or None, "sort": None, "axis": {"labelAngle": 0}},
        "xOffset": {"field": "series", "type": "nominal", "sort": None},
    }
    colour = {"field": "series", "type": "nominal", "title": series or None, "sort": None}
    panel = _panel(
        title,
        encoding,
        values,
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
    groups = {row["x"] for row in values}
    return {**panel, "width": max(WIDTH, GROUP_WIDTH * len(groups))}


def lines(
    rows: Iterable[Row],
    x: str,
    y: str,
    *,
    series: str = "",
    log: bool = False,
    domain: tuple[float, float] | None = None,
    title: str = "",
) -> Spec:
    """A curve per series without points; rows have ``x``, ``mean``, ``series``, and ``low``, ``high`` for a band.

    Args:
        x, y: titles of the axes.
        series: the title of the legend.
        log: whether the horizontal axis is logarithmic.
        domain: the ends of the vertical axis; from the values by default.
    """
    values = list(rows)
    scale = {"zero": False} if domain is None else {"domain": list(domain), "nice": False}
    horizontal = {"nice": False, **({"type": "log"} if log else {"zero": False})}
    legend = {"symbolType": "stroke", "symbolOpacity": 1}
    vertical = {"type": "quantitative", "title": y, "scale": scale}
    encoding: Spec = {
        "x": {"field": "x", "type": "quantitative", "title": x, "scale": horizontal},
        "color": {"field": "series", "type": "nominal", "title": series or None, "sort": None, "legend": legend},
    }
    layer: list[Spec] = [
        {"mark": {"type": "line", "clip": True, "strokeWidth": 1.8}, "encoding": {"y": {**vertical, "field": "mean"}}}
    ]
    if any("low" in row for row in values):
        band = {"y": {**vertical, "field": "low"}, "y2": {"field": "high"}}
        layer.insert(0, {"mark": {"type": "area", "clip": True, "opacity": 0.18}, "encoding": band})
    return _panel(title, encoding, values, layer)


def scatter(rows: Iterable[Row], x: str, y: str, *, series: str | None = None, title: str = "") -> Spec:
    """A point per architecture, for example score against truth; rows have ``x`` and ``y``.

    Args:
        x, y: titles of the axes.
        series: the title of the legend; rows then have ``series``.
    """
    encoding: Spec = {
        name: {"field": name, "type": "quantitative", "title": shown, "scale": {"zero": False}}
        for name, shown in (("x", x), ("y", y))
    }
    if series is not None:
        encoding["color"] = {"field": "series", "type": "nominal", "title": series or None, "sort": None}
    mark = {"type": "circle", "opacity": 0.45, "size": 18}
    return _panel(title, encoding, list(rows), [{"mark": mark}])


def heat_grid(rows: Sequence[Row], x: str, y: str, title: str, *, digits: int = 2) -> Spec:
    """A cell with its number for every pair of settings, darker where it is larger; rows have ``x``, ``y``, ``value``.

    Args:
        x, y: titles of the axes; the settings stand in the order of the rows.
        title: what the numbers are.
    """
    values = [row["value"] for row in rows]
    low, width = min(values), (max(values) - min(values)) or 1.0
    # a scale of its own, so that grids of different measures can stand in one picture
    shaded = [{**row, "shade": (row["value"] - low) / width} for row in rows]
    encoding: Spec = {
        "x": {"field": "x", "type": "ordinal", "title": x, "sort": None, "axis": {"labelAngle": 0}},
        "y": {"field": "y", "type": "ordinal", "title": y, "sort": None},
    }
    colours = {"domain": [0, 1], "range": ["#f3f7fc", "#8fbde6"]}  # light: black numbers stay readable
    colour = {"field": "shade", "type": "quantitative", "scale": colours, "legend": None}
    text = {"field": "value", "type": "quantitative", "format": f".{digits}f"}
    return _panel(
        title,
        encoding,
        shaded,
        [
            {"mark": "rect", "encoding": {"color": colour}},
            {"mark": {"type": "text", "fontSize": 12}, "encoding": {"text": text}},
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
    """One PNG per specification."""
    import vl_convert  # a browser's engine, which only drawing needs

    written = []
    for name, spec in specs.items():
        whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": CONFIG, **spec}
        path = folder / f"{name}.png"
        write_atomically(path, vl_convert.vegalite_to_png(whole, scale=1.2))
        written.append(path)
    return written
