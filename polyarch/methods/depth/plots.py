"""Charts of a search for a depth: the posterior, every depth alone, and early exit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import altair as alt

from polyarch.methods.depth.headline import chosen_exit
from polyarch.methods.depth.words import is_learned
from polyarch.reports.plots import HEIGHT, curves
from polyarch.reports.specs import Row, Spec, data, spec_of
from polyarch.results import DepthMeasure, DepthRecord

Values = dict[str, Callable[[DepthMeasure], float]]
"""Names of curves, and the number that each shows of a depth."""


def depth_charts(record: DepthRecord) -> Iterator[tuple[str, Spec]]:
    """Names of places on the page to specifications."""
    if is_learned(record):
        yield "depth-posterior", posterior(record)
    else:
        yield "depth-loss", _by_depth(record, {"validation": lambda one: one.valid_loss}, "validation loss (nats)")
    accuracies: Values = {"validation": lambda one: one.valid_accuracy, "test": lambda one: one.accuracy}
    yield "depth-accuracy", _by_depth(record, accuracies, "accuracy", "~%")
    likelihoods: Values = {"validation": lambda one: -one.valid_loss, "test": lambda one: -one.loss}
    yield "depth-likelihood", _by_depth(record, likelihoods, "mean log p (nats)")
    if record.exits:
        yield "depth-exits", early_exit(record)


def posterior(record: DepthRecord) -> Spec:
    """The probability of every depth as bars, the chosen one highlighted, and the prior as a line."""
    rows: list[Row] = [{"depth": one.depth, "q": one.q, "prior": one.prior} for one in record.depths]
    return depth_bars(rows, record.chosen)


def depth_bars(rows: Sequence[Row], depth: int | None) -> Spec:
    """Bars of rows with ``depth``, ``q`` and, where there is one, ``prior``, which is a line; one depth highlighted."""
    chosen = [row for row in rows if row["depth"] == depth]
    has_prior = any(row.get("prior") is not None for row in rows)
    x = alt.X(
        "depth:O",
        title="depth",
        scale=alt.Scale(domain=[row["depth"] for row in rows]),
        axis=alt.Axis(labelAngle=0, labelOverlap=True, labelSeparation=6),
    )
    y, prior = (
        alt.Y(f"{name}:Q", title="probability", scale=alt.Scale(zero=True), axis=alt.Axis(format="~%", tickCount=5))
        for name in ("q", "prior")
    )
    tooltip = [
        alt.Tooltip("depth:O"),
        alt.Tooltip("q:Q", title="posterior", format=".2%"),
        *([alt.Tooltip("prior:Q", format=".2%")] if has_prior else []),
    ]
    layers = [
        data(rows).mark_bar(style="others", opacity=0.6, strokeWidth=0).encode(x=x, y=y, tooltip=tooltip),
        data(chosen).mark_bar(style="best", strokeWidth=0).encode(x=x, y=y, tooltip=tooltip),
        data(chosen).mark_text(dy=-8, fontWeight=600).encode(x=x, y=y, text="depth:O"),
    ]
    if has_prior:
        layers.append(data(rows).mark_line(style="front").encode(x=x, y=prior))
    return spec_of(layers, "Probability of every depth", height=HEIGHT - 40)


def early_exit(record: DepthRecord) -> Spec:
    """Test accuracy against the mean depth that test examples use, a point per confidence."""
    rows = [one.model_dump() for one in record.exits]
    chosen = chosen_exit(record)
    x = alt.X(
        "mean_depth:Q", title="mean depth used", scale=alt.Scale(zero=False, padding=14), axis=alt.Axis(tickCount=8)
    )
    y = alt.Y("accuracy:Q", title="test accuracy", scale=alt.Scale(zero=False, padding=14), axis=alt.Axis(format="~%"))
    tooltip = [
        alt.Tooltip("confidence:Q", format="~%"),
        alt.Tooltip("mean_depth:Q", title="mean depth used", format=".2f"),
        alt.Tooltip("accuracy:Q", title="test accuracy", format=".2%"),
        alt.Tooltip("valid_accuracy:Q", title="validation accuracy", format=".2%"),
        alt.Tooltip("loss:Q", title="test loss (nats)", format=".4~g"),
    ]
    order = alt.Order("confidence:Q")
    layers = [
        data(rows).mark_line(style="others", fill=None, opacity=0.7).encode(x=x, y=y, order=order),
        data(rows).mark_point(style="others", filled=True, size=48, opacity=1).encode(x=x, y=y, tooltip=tooltip),
    ]
    if chosen is not None:
        point = data([chosen.model_dump()]).mark_point(style="best", filled=True, size=150, opacity=1)
        layers.append(point.encode(x=x, y=y, tooltip=tooltip))
    return spec_of(layers, "Early exit: accuracy against mean depth", height=HEIGHT)


def _by_depth(record: DepthRecord, values: Values, title: str, y_format: str = ".3~g") -> Spec:
    rows = [
        {"depth": one.depth, "value": value(one), "series": name}
        for one in record.depths
        for name, value in values.items()
    ]
    return curves(rows, title, y_format, over="depth", marked=record.chosen)
