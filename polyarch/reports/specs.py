"""What all charts have in common: their data, their legend, and the checked specification."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

Spec = dict[str, Any]
"""A Vega-Lite specification."""
Row = dict[str, Any]
"""A point of the data of a chart."""


def legend(names: Sequence[str]) -> alt.Legend | None:
    """Above the chart; below each other where the names would not fit beside each other on a telephone."""
    if len(names) < 2:
        return None
    room = sum(len(name) + 5 for name in names)
    return alt.Legend(
        orient="top", direction="horizontal" if room < 44 else "vertical", labelLimit=260, symbolOpacity=1
    )


def data(rows: Iterable[Row]) -> alt.Chart:
    """A chart of these rows; what is not finite becomes a gap, because JSON has no word for it."""
    finite = [
        {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        for row in rows
    ]
    return alt.Chart(alt.InlineData(values=finite))


def spec_of(layers: Sequence[alt.Chart], description: str, height: float | alt.Step) -> Spec:
    """The checked specification of layers above each other; it is as wide as its place on the page."""
    chart = alt.LayerChart(layer=list(layers), width="container", height=height, description=description)
    spec: Spec = chart.to_dict()
    spec.pop("config", None)  # the page's theme takes the place of altair's
    return spec
