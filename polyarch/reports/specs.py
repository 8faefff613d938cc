"""What all charts have in common: their data, their legend, and the checked specification."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Any

import altair as alt

from polyarch.reports.canvas import shortened

Spec = dict[str, Any]
"""A Vega-Lite specification."""
Row = dict[str, Any]
"""A point of the data of a chart."""


def legend(names: Sequence[str], symbol: str = "square") -> alt.Legend | None:
    """Above the chart; below each other where the names would not fit beside each other on a telephone."""
    if len(names) < 2:
        return None
    room = sum(len(name) + 5 for name in names)
    return alt.Legend(
        orient="top",
        direction="horizontal" if room < 44 else "vertical",
        labelLimit=260,
        symbolType=symbol,
        symbolOpacity=1,
        symbolStrokeWidth=3 if symbol == "stroke" else 0,
    )


def wrapped(names: Sequence[str], width: int = 22) -> list[str]:
    """Names in up to three lines, as labels of an axis; as they are where that would make two the same."""
    found = ["\n".join(wrap(name, width, max_lines=3, placeholder=" …", break_on_hyphens=False)) for name in names]
    return found if len(set(found)) == len(set(names)) else list(names)


def short_names(names: Sequence[str], length: int = 20) -> list[str]:
    """Names without their middle where they are long; as they are where that would make two the same."""
    found = [shortened(name, length) for name in names]
    return found if len(set(found)) == len(set(names)) else list(names)


def data(rows: Iterable[Row]) -> alt.Chart:
    """A chart of these rows; what is not finite becomes a gap, because JSON has no word for it."""
    finite = [
        {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        for row in rows
    ]
    return alt.Chart(alt.InlineData(values=finite))


def spec_of(layers: Sequence[alt.Chart], description: str, height: float) -> Spec:
    """The checked specification of layers above each other; it is as wide as its place on the page."""
    chart = alt.LayerChart(layer=list(layers), width="container", height=height, description=description)
    spec: Spec = chart.to_dict()
    spec.pop("config", None)  # the page's theme takes the place of altair's
    return spec
