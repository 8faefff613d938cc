"""Charts of a posterior-guided search: its training, all draws, and the posterior over depths."""

from collections.abc import Iterator, Sequence

import altair as alt

from polyarch.methods.posterior_guided.record import GuidedDraw, GuidedRecord
from polyarch.reports.plots import curves, posterior_bars, retraining, trained_alone
from polyarch.reports.score_text import ScoreText
from polyarch.reports.specs import HEIGHT, MOST_POINTS, Row, Spec, curve, data, evenly, spec_of
from polyarch.results import Results

_COURSE = (
    ("kept", "kept", "expected share of kept channels", "~%"),
    ("penalty", "penalty", "penalty (nats per example)", ".3~g"),
)
_COSTS = {"macs": "multiply-accumulates", "parameters": "parameters"}


def training_charts(results: Results) -> Iterator[tuple[str, Spec]]:
    """What only networks with gates have, over the epochs, and the whole network trained alone."""
    for name, key, title, y_format in _COURSE:
        rows = list(curve(results.training.history, {key: title}))
        if rows:
            yield name, curves(rows, title, y_format)
    for runs in trained_alone(results)[1:][-1:]:
        yield from retraining(runs, ScoreText.of(results), "retraining-whole")


def draw_charts(record: GuidedRecord, text: ScoreText) -> Iterator[tuple[str, Spec]]:
    """All draws against their costs, and the posterior over depths where there is one."""
    yield "draws-macs", draws(record, text, "macs", record.max_macs)
    yield "draws-parameters", draws(record, text, "parameters", record.max_params)
    if record.depths:
        rows: list[Row] = [{"depth": depth, "q": share} for depth, share in enumerate(record.depths)]
        yield "guided-depths", posterior_bars(rows, "depth", record.best_depth)


def shown_draws(found: Sequence[GuidedDraw], best: int | None = None) -> list[GuidedDraw]:
    """All of them, or an even selection of many with the best among them."""
    places = set(evenly(len(found), MOST_POINTS))
    return [draw for place, draw in enumerate(found) if place in places or draw.position == best]


def draws(record: GuidedRecord, text: ScoreText, cost: str, limit: float | None) -> Spec:
    """Validation score against a cost: random draws, those from the posterior, and a ring around the best."""
    random = [_row(draw, "random, one rate", text) for draw in shown_draws(record.random)]
    guided = [_row(draw, "from the posterior", text) for draw in shown_draws(record.guided, record.best)]
    best = [_row(record.best_draw, "the best", text)]
    scale = alt.Scale(zero=False, padding=14)
    ticks = alt.Axis(format="~s", tickCount=5, labelOverlap=True, labelSeparation=6)
    x = alt.X(f"{cost}:Q", title=_COSTS[cost], scale=scale, axis=ticks)
    y = alt.Y(
        "score:Q", title=f"validation {text.title}", scale=scale, axis=alt.Axis(format=text.axis_format, tickCount=6)
    )
    tooltip = [
        alt.Tooltip("kind:N", title="draw"),
        alt.Tooltip("position:Q", title="number", format=",d"),
        alt.Tooltip("score:Q", title=f"validation {text.title}", format=text.exact_format),
        alt.Tooltip("loss:Q", title="validation loss (nats)", format=".4~g"),
        alt.Tooltip("parameters:Q", format=",d"),
        alt.Tooltip("macs:Q", title="multiply-accumulates", format=",.0f"),
    ]
    layers = [
        data(rows).mark_point(style=style, filled=True, size=44, opacity=0.6).encode(x=x, y=y, tooltip=tooltip)
        for style, rows in (("others", random), ("best", guided))
        if rows
    ]
    ring = data(best).mark_point(style="front", size=170, strokeWidth=2.6, opacity=1)
    layers.append(ring.encode(x=x, y=y, tooltip=tooltip))
    if limit is not None and limit <= 2 * max(row[cost] for row in (*random, *guided)):  # far away it would crowd them
        rule = data([{cost: limit}]).mark_rule(style="limit")
        layers.append(rule.encode(x=x, tooltip=[alt.Tooltip(f"{cost}:Q", title="limit", format=",d")]))
    return spec_of(layers, f"Validation {text.title} of all draws against {_COSTS[cost]}", height=HEIGHT)


def _row(draw: GuidedDraw, kind: str, text: ScoreText) -> Row:
    """With the value of the metric, of which an error has the opposite sign of its score."""
    score = round(text.metric.gain(draw.score), 6)
    return {**draw.model_dump(), "score": score, "loss": round(draw.loss, 6), "kind": kind}
