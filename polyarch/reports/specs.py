"""What all charts have in common: their points, their legend, and the checked specification."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

import altair as alt

from polyarch.reports.canvas import shortened

Spec = dict[str, Any]
"""A Vega-Lite specification."""
Row = dict[str, Any]
"""A point of the data of a chart."""

HEIGHT = 280
"""Of most charts, in pixels."""
MOST_POINTS = 400
"""Of a curve or a cloud: more than there are pixels only make the page larger."""


def evenly(count: int, most: int = MOST_POINTS) -> list[int]:
    """At most so many positions out of ``count``, evenly spaced, with the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [round(index * (count - 1) / (most - 1)) for index in range(most)]


def curve(history: Sequence[Mapping[str, float]], names: Mapping[str, str]) -> Iterator[Row]:
    """Points over the epochs: what was measured under a key, by the name of its curve."""
    for key, name in names.items():
        rows = [
            {"epoch": row["epoch"], "value": row[key], "series": name}
            for row in history
            if key in row and "epoch" in row
        ]
        yield from (rows[index] for index in evenly(len(rows)))


def data(rows: Iterable[Row]) -> alt.Chart:
    """A chart of these rows; what is not finite becomes a gap, because JSON cannot write it."""
    finite = [
        {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        for row in rows
    ]
    return alt.Chart(alt.InlineData(values=finite))


def legend(names: Sequence[str], symbol: str = "square") -> alt.Legend | None:
    """Above the chart; names that would not fit side by side on a telephone stand below each other."""
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
    """Names in up to three lines, as labels of an axis; unchanged where two would become the same."""
    found = ["\n".join(wrap(name, width, max_lines=3, placeholder=" …", break_on_hyphens=False)) for name in names]
    return found if len(set(found)) == len(set(names)) else list(names)


def short_names(names: Sequence[str], length: int = 20) -> list[str]:
    """Long names without their middle; unchanged where two would become the same."""
    found = [shortened(name, length) for name in names]
    return found if len(set(found)) == len(set(names)) else list(names)


def spec_of(layers: Sequence[alt.Chart], description: str, height: float) -> Spec:
    """The checked specification of stacked layers, as wide as its place on the page."""
    chart = alt.LayerChart(layer=list(layers), width="container", height=height, description=description)
    spec: Spec = chart.to_dict()
    spec.pop("config", None)  # the theme of the page replaces altair's
    return spec
