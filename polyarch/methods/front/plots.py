"""Charts of a front: the score of every size against what it costs; a click on a point shows how to take it."""

from collections.abc import Iterator

import altair as alt

from polyarch.methods.front.record import FrontRecord
from polyarch.reports.score_text import ScoreText
from polyarch.reports.specs import HEIGHT, Row, Spec, data, spec_of
from polyarch.results import SizeRecord

COSTS = {
    "macs": ("multiply-accumulates", "~s"),
    "parameters": ("parameters", "~s"),
    "milliseconds": ("milliseconds per example", "~g"),
}
"""Field -> the title of its axis and how its ticks are written."""


def front_charts(record: FrontRecord, text: ScoreText) -> Iterator[tuple[str, Spec]]:
    """A chart for every cost."""
    for cost in COSTS:
        yield f"front-{cost}", front(record, text, cost)


def front(record: FrontRecord, text: ScoreText, cost: str) -> Spec:
    """Test scores against a cost: the sizes on the front are joined by a line, the delivered one stands out."""
    title, ticks = COSTS[cost]
    x = alt.X(
        f"{cost}:Q",
        title=title,
        scale=alt.Scale(type="log", padding=16, nice=False),
        axis=alt.Axis(format=ticks, tickCount=4, labelOverlap=True),
    )
    y = alt.Y(
        "score:Q",
        title=f"test {text.title}",
        scale=alt.Scale(zero=False, padding=16),
        axis=alt.Axis(format=text.axis_format, tickCount=5),
    )
    tooltip = [
        alt.Tooltip("index:Q", title="size"),
        alt.Tooltip("score:Q", title=f"test {text.title}", format=text.exact_format),
        alt.Tooltip("loss:Q", title="test NLL", format=".4~g"),
        alt.Tooltip("parameters:Q", format=",d"),
        alt.Tooltip("macs:Q", title="multiply-accumulates", format=",.0f"),
        alt.Tooltip("milliseconds:Q", title="milliseconds", format=".3~g"),
    ]
    rows = [size_row(index, one) for index, one in enumerate(record.sizes)]
    joined = [row for row, one in zip(rows, record.sizes, strict=True) if one.is_on_front]
    others = [row for row in rows if row["index"] != record.best]
    layers = []
    if cost != "milliseconds":  # the front is of what is counted
        layers.append(data(joined).mark_line(style="front", fillOpacity=0).encode(x=x, y=y, order=f"{cost}:Q"))
    for style, group in (("others", others), ("best", [rows[record.best]])):
        points = data(group).mark_point(style=style, filled=True, size=150, opacity=0.95, cursor="pointer")
        layers.append(points.encode(x=x, y=y, tooltip=tooltip))
    return spec_of(layers, f"Test {text.title} of every size against {title}", height=HEIGHT)


def size_row(index: int, one: SizeRecord) -> Row:
    """A size as a point; ``shows`` is the part of the page that a click reveals."""
    return {
        "index": index,
        "shows": f"size-{index}",
        "score": round(one.score, 6),
        "loss": round(one.loss, 5),
        "parameters": one.parameters,
        "macs": one.macs,
        "milliseconds": round(1000 * one.latency, 4),
    }
