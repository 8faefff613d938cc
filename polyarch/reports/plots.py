"""Charts as Vega-Lite specifications, one function each, with their data inside.

A specification says what is shown; colours and fonts come from the page, which knows whether it is light or dark. Its
parts refer to them by the names of styles: best, others, front, limit, chosen, diagonal, words. Text from results
stands in the data only, never in field names or expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import altair as alt

from polyarch.reports.distribution import Share, Shares, column_names, option_label
from polyarch.reports.headline import Entry
from polyarch.reports.searched import front, is_maximised, objective_of, ordered
from polyarch.reports.specs import Row, Spec, data, legend, short_names, spec_of, wrapped
from polyarch.reports.words import SPACE, estimator_name, key_of
from polyarch.results import PredictorRecord, SearchRecord

HEIGHT = 280
CELLS_WITH_WORDS = "bandwidth('x') < 36 ? 0 : 1"
"""The opacity of words in cells: on narrow screens the cells keep only their colour and what the pointer shows."""


def contenders(entries: Sequence[Entry]) -> Spec:
    """Test accuracy, one row per contender: every run as a tick, the mean as a point, the spread as a bar."""
    labels = dict(zip((entry.name for entry in entries), wrapped([entry.name for entry in entries]), strict=True))
    axis = alt.Axis(labelExpr=r"split(datum.label, '\n')", labelLimit=160, ticks=False, domain=False, labelPadding=8)
    y = alt.Y("label:N", scale=alt.Scale(domain=list(labels.values())), title=None, axis=axis)
    scale = alt.Scale(zero=False, padding=44)
    # The room for the words beside the largest value may reach beyond what an accuracy can be.
    x_axis = alt.Axis(format="~%", tickCount=5, labelExpr="datum.value > 1 ? '' : datum.label")
    tooltip = [
        alt.Tooltip("name:N", title="network"),
        alt.Tooltip("shown:N", title="test accuracy"),
        alt.Tooltip("runs:Q", title="runs"),
    ]
    layers: list[alt.Chart] = []
    for style, group in (
        ("others", [e for e in entries if not e.is_best]),
        ("best", [e for e in entries if e.is_best]),
    ):
        means = data(
            {
                "name": entry.name,
                "label": labels[entry.name],
                "mean": entry.mean,
                "low": entry.mean - (entry.std or 0.0),
                "high": entry.mean + (entry.std or 0.0),
                "shown": entry.shown,
                "runs": len(entry.accuracies),
            }
            for entry in group
        )
        runs = data(
            {"name": entry.name, "label": labels[entry.name], "accuracy": value}
            for entry in group
            for value in entry.accuracies
        )
        bar = means.mark_rule(style=style, strokeWidth=7, opacity=0.3, strokeCap="round")
        layers += [
            bar.encode(x=alt.X("low:Q"), x2="high:Q", y=y, tooltip=tooltip),
            runs.mark_tick(style=style, opacity=0.55, thickness=1.5, height=14).encode(
                x="accuracy:Q", y=y, tooltip=[tooltip[0], alt.Tooltip("accuracy:Q", format=".2%")]
            ),
            means.mark_point(style=style, filled=True, size=110, opacity=1).encode(
                x=alt.X("mean:Q", title="test accuracy", scale=scale, axis=x_axis), y=y, tooltip=tooltip
            ),
            means.mark_text(dy=-16, fontWeight=600).encode(x="mean:Q", y=y, text="shown:N"),
        ]
    return spec_of(layers, "Test accuracy of every contender with its spread", height=54 * len(entries))


def curves(
    rows: Iterable[Row], title: str, y_format: str = ".3~g", *, over: str = "epoch", marked: float | None = None
) -> Spec:
    """Measured values over the epochs, or over other whole numbers.

    Args:
        rows: dictionaries with ``over``, ``value``, ``series`` and, where several networks are shown, ``seed``.
        title: of the vertical axis.
        over: the name of the horizontal axis and of its field.
        marked: a place on the horizontal axis with a rule.
    """
    rows = list(rows)
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    colour = alt.Color("series:N", title=None, scale=alt.Scale(domain=names), legend=legend(names, "stroke"))
    seeds = len({row.get("seed") for row in rows}) > 1
    tooltip = [
        alt.Tooltip("series:N", title="curve"),
        *([alt.Tooltip("seed:N", title="seed")] if seeds else []),
        alt.Tooltip(f"{over}:Q", title=over),
        alt.Tooltip("value:Q", title="value", format=".4~g" if y_format == ".3~g" else ".2%"),
    ]
    places = sorted({row[over] for row in rows})
    ticks = alt.Axis(format="d", values=places) if len(places) <= 10 else alt.Axis(format="d", tickCount=8)
    x = alt.X(f"{over}:Q", title=over, scale=alt.Scale(nice=False), axis=ticks)
    counts = y_format != "~%" and all(float(row["value"]).is_integer() for row in rows)
    y_axis = alt.Axis(format=y_format, tickMinStep=1 if counts else alt.Undefined)  # no ticks between whole numbers
    encoded = data(rows).encode(
        x=x,
        y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False), axis=y_axis),
        color=colour,
        detail="seed:N" if seeds else alt.Undefined,
    )
    lines = encoded.mark_line(strokeWidth=1.6 if seeds else 2.2, opacity=0.75 if seeds else 1, point=len(rows) < 4)
    pointer = encoded.mark_point(opacity=0, size=90).encode(tooltip=tooltip)
    layers = [lines, pointer]
    if marked is not None:
        layers.insert(0, data([{over: marked}]).mark_rule(style="chosen").encode(x=x))
    return spec_of(layers, f"{title} over the {over}s: {', '.join(names)}", height=HEIGHT - 40)


def option_map(shares: Shares, largest: float) -> Spec:
    """Choices in rows, options in columns, shares as colour.

    Where choices offer different options the columns are only numbered, and each cell names its option.

    Args:
        largest: the share with the strongest colour, the same for maps side by side.
    """
    columns = column_names(shares)
    labels = _labels(columns) if columns else []
    names = dict(zip(shares.choices, short_names(shares.choices), strict=True))
    rows = [
        {
            **_share(share),
            "label": names[share.choice],
            "column": labels[share.position] if columns else str(share.position + 1),
            "words": _whole_percent(share.share) if columns else f"{share.option}\n{_whole_percent(share.share)}",
        }
        for share in shares.shares
    ]
    most = max(share.position for share in shares.shares) + 1
    axis = alt.Axis(orient="top", labelAngle=-35 if any(len(name) > 9 for name in labels) else 0, labelLimit=90)
    encoded = data(rows).encode(
        x=alt.X(
            "column:N",
            scale=alt.Scale(domain=labels or [str(position + 1) for position in range(most)]),
            title=None,
            axis=axis if columns else None,
        ),
        y=alt.Y("label:N", scale=alt.Scale(domain=list(names.values())), title=None, axis=alt.Axis(labelLimit=140)),
    )
    cells = encoded.mark_rect(cornerRadius=3, style="tile").encode(
        color=alt.Color("share:Q", scale=alt.Scale(domain=[0, largest]), legend=None), tooltip=_SHARE_TOOLTIP
    )
    words = encoded.mark_text(
        style="words",
        lineBreak="\n",
        baseline="middle",
        dy=0 if columns else -6,
        limit=alt.ExprRef("bandwidth('x') - 6"),
        opacity=alt.ExprRef(CELLS_WITH_WORDS),
    ).encode(text="words:N", tooltip=_SHARE_TOOLTIP)
    height = (32 if columns else 42) * len(shares.choices)
    return spec_of([cells, words], f"Share of every option: {shares.name}", height=height)


def option_bars(distributions: Sequence[Shares]) -> Spec:
    """For a single choice: a bar per option, and one beside it per further distribution."""
    names = [shares.name for shares in distributions]
    rows = [{**_share(share), "series": shares.name} for shares in distributions for share in shares.shares]
    options = [share.option for share in distributions[0].shares]
    chart = data(rows).mark_bar(cornerRadiusEnd=2)
    encoded = chart.encode(
        x=alt.X(
            "option:N", sort=options, title=distributions[0].choices[0], axis=alt.Axis(labelAngle=0, labelLimit=70)
        ),
        y=alt.Y("share:Q", title="share", axis=alt.Axis(format="~%")),
        color=alt.Color("series:N", scale=alt.Scale(domain=names), title=None, legend=legend(names)),
        tooltip=[alt.Tooltip("series:N", title="among"), *_SHARE_TOOLTIP],
    )
    if len(names) > 1:
        encoded = encoded.encode(xOffset=alt.XOffset("series:N", scale=alt.Scale(domain=names)))
    return spec_of([encoded], "Share of every option", height=HEIGHT - 60)


def score_against_size(search: SearchRecord, best: Mapping[str, str] | None) -> Spec:
    """Every searched architecture, the Pareto front as a line, the best one highlighted, a limit as a rule."""
    items, objective = ordered(search), objective_of(search)
    estimators = [score.estimator for score in items[0].scores if score.estimator != "params"]
    sizes, scores = [item.parameters for item in items], [item.score(objective) for item in items]
    rows = [
        {
            "architecture": key_of(item.architecture),
            "parameters": item.parameters,
            "score": score,
            **{f"score{index}": item.score(name) for index, name in enumerate(estimators)},
        }
        for item, score in zip(items, scores, strict=True)
    ]
    tooltip = [
        alt.Tooltip("architecture:N", title="architecture"),
        alt.Tooltip("parameters:Q", title="parameters", format=",d"),
        *(
            alt.Tooltip(f"score{index}:Q", title=estimator_name(name), format=",.6~r")
            for index, name in enumerate(estimators)
        ),
    ]
    wide = min(sizes) > 0 and max(sizes) > 20 * min(sizes)
    scale = alt.Scale(type="log", padding=12) if wide else alt.Scale(zero=False, padding=12)
    x = alt.X("parameters:Q", title="parameters", scale=scale, axis=alt.Axis(format="~s", tickCount=6))
    direction = "higher" if is_maximised(objective) else "lower"
    y = alt.Y(
        "score:Q", title=f"{estimator_name(objective)}, {direction} is better", scale=alt.Scale(zero=False, padding=12)
    )
    on_front = [rows[index] for index in front(sizes, scores, maximise=is_maximised(objective))]
    highlighted = [row for row, item in zip(rows, items, strict=True) if item.architecture == best]
    layers = [
        data(rows).mark_point(style="others", filled=True, size=48, opacity=0.6).encode(x=x, y=y, tooltip=tooltip),
        data(on_front).mark_line(style="front", interpolate="step-after").encode(x=x, y=y),
        data(on_front).mark_point(style="front", size=60, strokeWidth=1.6).encode(x=x, y=y, tooltip=tooltip),
        data(highlighted).mark_point(style="best", filled=True, size=150, opacity=1).encode(x=x, y=y, tooltip=tooltip),
    ]
    limit = search.limits.get("params")
    if limit is not None and limit <= 2 * max(sizes):  # a limit far away would push all points into a corner
        rule = data([{"parameters": limit}]).mark_rule(style="limit")
        layers.append(rule.encode(x=x, tooltip=[alt.Tooltip("parameters:Q", title="limit", format=",d")]))
    return spec_of(layers, f"{estimator_name(objective)} against parameters", height=HEIGHT + 60)


def reliability(predictors: Sequence[PredictorRecord]) -> Spec:
    """How often predictions are right against how sure they are; honest ones lie on the diagonal."""
    rows = [
        {
            "predictor": one.name,
            "confidence": b.confidence,
            "accuracy": b.accuracy,
            "count": b.count,
            "range": f"{b.low:.2f} to {b.high:.2f}",
        }
        for one in predictors
        for b in one.reliability
        if b.count
    ]
    tooltip = [
        alt.Tooltip("predictor:N"),
        alt.Tooltip("range:N", title="confidence in"),
        alt.Tooltip("confidence:Q", title="mean confidence", format=".2%"),
        alt.Tooltip("accuracy:Q", format=".2%"),
        alt.Tooltip("count:Q", title="test examples", format=",d"),
    ]
    axis, unit = alt.Axis(format="~%", tickCount=5), alt.Scale(domain=[0, 1])
    x = alt.X("confidence:Q", title="confidence", scale=unit, axis=axis)
    y = alt.Y("accuracy:Q", title="accuracy", scale=unit, axis=axis)
    colour = _predictor_colour(predictors, "circle")
    diagonal = data([{"confidence": 0, "accuracy": 0}, {"confidence": 1, "accuracy": 1}])
    size = alt.Size("count:Q", scale=alt.Scale(range=[30, 320]), legend=None)
    layers = [
        diagonal.mark_line(style="diagonal").encode(x=x, y=y),
        data(rows).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
        data(rows).mark_point(filled=True, opacity=0.85).encode(x=x, y=y, color=colour, size=size, tooltip=tooltip),
    ]
    return spec_of(layers, "Reliability: accuracy against confidence", height=HEIGHT + 20)


def risk_coverage(predictors: Sequence[PredictorRecord]) -> Spec:
    """The error rate among the answered examples; a rule shows the share that the threshold lets pass."""
    rows = [
        {"predictor": one.name, "coverage": coverage, "risk": risk}
        for one in predictors
        for coverage, risk in zip(one.coverage, one.risk, strict=True)
    ]
    thresholds = [
        {"predictor": one.name, "coverage": 1 - one.flagged, "threshold": one.threshold} for one in predictors
    ]
    colour = _predictor_colour(predictors, "stroke")
    percentage = alt.Axis(format="~%", tickCount=5)
    x = alt.X("coverage:Q", title="answered share", scale=alt.Scale(domain=[0, 1]), axis=percentage)
    y = alt.Y("risk:Q", title="error rate among them", axis=percentage)
    passed = alt.Tooltip("coverage:Q", title="answered", format=".1%")
    tooltip = [alt.Tooltip("predictor:N"), passed, alt.Tooltip("risk:Q", title="error rate", format=".2%")]
    limits = [alt.Tooltip("predictor:N"), passed, alt.Tooltip("threshold:Q", title="entropy threshold", format=".3~g")]
    layers = [
        data(thresholds).mark_rule(strokeDash=[4, 4], strokeWidth=1.6).encode(x=x, color=colour, tooltip=limits),
        data(rows).mark_line(strokeWidth=2.2).encode(x=x, y=y, color=colour),
        data(rows).mark_point(opacity=0, size=80).encode(x=x, y=y, color=colour, tooltip=tooltip),
    ]
    return spec_of(layers, "Error rate against the answered share", height=HEIGHT + 20)


_SHARE_TOOLTIP = [
    alt.Tooltip("choice:N"),
    alt.Tooltip("option:N"),
    alt.Tooltip("share:Q", format=".1%"),
]


def _share(share: Share) -> Row:
    return {"choice": share.choice, "option": share.option, "share": share.share}


def _whole_percent(share: float) -> str:
    return f"{100 * share:.0f}{SPACE}%"


def _labels(options: Sequence[str]) -> list[str]:
    usual = [option_label(option) for option in options]
    return short_names(usual if len(set(usual)) == len(usual) else options)


def _predictor_colour(predictors: Sequence[PredictorRecord], symbol: str) -> alt.Color:
    names = [one.name for one in predictors]
    return alt.Color("predictor:N", scale=alt.Scale(domain=names), title=None, legend=legend(names, symbol))
