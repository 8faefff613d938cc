"""Charts of a search for a depth: the posterior, every depth alone, and early exit."""

from collections.abc import Callable, Iterator

import altair as alt

from polyarch.methods.depth.record import DepthMeasure, DepthRecord
from polyarch.reports.plots import curves, posterior_bars
from polyarch.reports.score_text import ScoreText
from polyarch.reports.specs import HEIGHT, Row, Spec, data, spec_of

Values = dict[str, Callable[[DepthMeasure], float]]
"""Names of curves, and the number that each shows of a depth."""


def depth_charts(record: DepthRecord, text: ScoreText) -> Iterator[tuple[str, Spec]]:
    """Ids of places on the page and what is drawn there."""
    if record.is_learned:
        rows: list[Row] = [
            {"depth": one.depth, "q": one.q, "prior": one.prior, "other": record.other_posterior(one)}
            for one in record.depths
        ]
        yield "depth-posterior", posterior_bars(rows, "depth", record.chosen)
    else:
        yield "depth-loss", _by_depth(record, {"validation": lambda one: one.valid_loss}, "validation loss (nats)")
    scores: Values = {"validation": lambda one: one.valid_score, "test": lambda one: one.score}
    yield "depth-score", _by_depth(record, scores, text.title, text.axis_format)
    likelihoods: Values = {"validation": lambda one: -one.valid_loss, "test": lambda one: -one.loss}
    yield "depth-likelihood", _by_depth(record, likelihoods, "mean log p (nats)")
    if record.exits:
        yield "depth-exits", early_exit(record)


def early_exit(record: DepthRecord) -> Spec:
    """Test accuracy against the mean depth that test examples use, a point per confidence."""
    rows = [one.model_dump() for one in record.exits]
    chosen = record.chosen_exit
    scale = alt.Scale(zero=False, padding=14)
    x = alt.X("mean_depth:Q", title="mean depth used", scale=scale, axis=alt.Axis(tickCount=8))
    y = alt.Y("accuracy:Q", title="test accuracy", scale=scale, axis=alt.Axis(format="~%"))
    tooltip = [
        alt.Tooltip("confidence:Q", format="~%"),
        alt.Tooltip("mean_depth:Q", title="mean depth used", format=".2f"),
        alt.Tooltip("accuracy:Q", title="test accuracy", format=".2%"),
        alt.Tooltip("valid_accuracy:Q", title="validation accuracy", format=".2%"),
        alt.Tooltip("loss:Q", title="test loss (nats)", format=".4~g"),
    ]
    line = data(rows).mark_line(style="others", fill=None, opacity=0.7)
    layers = [
        line.encode(x=x, y=y, order=alt.Order("confidence:Q")),
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
