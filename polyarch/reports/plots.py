"""Charts as Vega-Lite specifications, one function each, with their data inside.

A specification says what is shown; colours and fonts come from the page, which knows whether it is light or dark. Its
parts refer to them by the names of styles: best, others, front, limit, chosen, diagonal, words. Text from results
stands in the data only, never in field names or expressions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import altair as alt

from polyarch.reports import plots
from polyarch.reports.headline import Entry
from polyarch.reports.number_plots import number_charts
from polyarch.reports.score_text import ScoreText
from polyarch.reports.shares import learned_shares, option_chart
from polyarch.reports.specs import HEIGHT, Row, Spec, curve, data, legend, spec_of, wrapped
from polyarch.results import NetworkRecord, PredictorRecord, Results


def contenders(entries: Sequence[Entry]) -> Spec:
    """Test scores, one row per contender: every run as a tick, the mean as a point, its interval as a bar."""
    labels = dict(zip((entry.name for entry in entries), wrapped([entry.name for entry in entries]), strict=True))
    axis = alt.Axis(labelExpr=r"split(datum.label, '\n')", labelLimit=160, ticks=False, domain=False, labelPadding=8)
    y = alt.Y("label:N", scale=alt.Scale(domain=list(labels.values())), title=None, axis=axis)
    scale = alt.Scale(zero=False, padding=44)
    text = entries[0].text
    direction = ", lower is better" if text.metric.goal == "minimise" else ""
    # The room for the text beside the largest value may reach beyond what a share can be.
    label = "datum.value > 1 ? '' : datum.label" if text.is_share else "datum.label"
    x_axis = alt.Axis(format=text.axis_format, tickCount=5, labelExpr=label)
    tooltip = [
        alt.Tooltip("name:N", title="network"),
        alt.Tooltip("shown:N", title=f"test {text.title}"),
        alt.Tooltip("runs:Q", title="runs"),
    ]
    layers: list[alt.Chart] = []
    for style, is_answer in (("others", False), ("best", True)):
        group = [entry for entry in entries if entry.is_answer == is_answer]
        if not group:
            continue
        means = data(
            {
                "name": entry.name,
                "label": labels[entry.name],
                "mean": entry.mean,
                "low": (entry.estimate.interval or (entry.mean, entry.mean))[0],
                "high": (entry.estimate.interval or (entry.mean, entry.mean))[1],
                "shown": entry.shown,
                "runs": len(entry.scores),
            }
            for entry in group
        )
        runs = data(
            {"name": entry.name, "label": labels[entry.name], "score": value}
            for entry in group
            for value in entry.scores
        )
        bar = means.mark_rule(style=style, strokeWidth=7, opacity=0.3, strokeCap="round")
        layers += [
            bar.encode(x=alt.X("low:Q"), x2="high:Q", y=y, tooltip=tooltip),
            runs.mark_tick(style=style, opacity=0.55, thickness=1.5, height=14).encode(
                x="score:Q",
                y=y,
                tooltip=[tooltip[0], alt.Tooltip("score:Q", title=text.title, format=text.exact_format)],
            ),
            means.mark_point(style=style, filled=True, size=110, opacity=1).encode(
                x=alt.X("mean:Q", title=f"test {text.title}{direction}", scale=scale, axis=x_axis), y=y, tooltip=tooltip
            ),
            means.mark_text(dy=-16, fontWeight=600).encode(x="mean:Q", y=y, text="shown:N"),
        ]
    return spec_of(layers, f"Test {text.title} of every contender with its 95 % interval", height=54 * len(entries))


def curves(
    rows: Iterable[Row], title: str, y_format: str = ".3~g", *, over: str = "epoch", marked: float | None = None
) -> Spec:
    """Measured values over the epochs, or over other whole numbers.

    Args:
        rows: dictionaries with ``over``, ``value``, ``series`` and, where several networks are shown, ``seed``; with
            ``low`` and ``high``, where values have intervals.
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
    if banded := [row for row in rows if row.get("low") is not None]:
        layers.insert(0, data(banded).mark_area(opacity=0.2).encode(x=x, y="low:Q", y2="high:Q", color=colour))
    if marked is not None:
        layers.insert(0, data([{over: marked}]).mark_rule(style="chosen").encode(x=x))
    return spec_of(layers, f"{title} over the {over}s: {', '.join(names)}", height=HEIGHT - 40)


def posterior_bars(rows: Sequence[Row], over: str, chosen: int | None) -> Spec:
    """The probability of every value of a whole number as bars, one of them highlighted, and the prior as a line.

    Args:
        rows: dictionaries with ``over``, ``q`` and, where there are such, ``prior`` and another posterior, ``other``.
        over: the name of the number and of its field.
        chosen: the value that is highlighted.
    """
    highlighted = [row for row in rows if row[over] == chosen]
    has_prior = any(row.get("prior") is not None for row in rows)
    x = alt.X(
        f"{over}:O",
        title=over,
        scale=alt.Scale(domain=[row[over] for row in rows]),
        axis=alt.Axis(labelAngle=0, labelOverlap=True, labelSeparation=6),
    )
    has_other = any(row.get("other") is not None for row in rows)
    y, prior, other = (
        alt.Y(f"{name}:Q", title="probability", scale=alt.Scale(zero=True), axis=alt.Axis(format="~%", tickCount=5))
        for name in ("q", "prior", "other")
    )
    tooltip = [
        alt.Tooltip(f"{over}:O"),
        alt.Tooltip("q:Q", title="posterior", format=".2%"),
        *([alt.Tooltip("other:Q", title="other posterior", format=".2%")] if has_other else []),
        *([alt.Tooltip("prior:Q", format=".2%")] if has_prior else []),
    ]
    layers = [
        data(rows).mark_bar(style="others", opacity=0.6, strokeWidth=0).encode(x=x, y=y, tooltip=tooltip),
        data(highlighted).mark_bar(style="best", strokeWidth=0).encode(x=x, y=y, tooltip=tooltip),
        data(highlighted).mark_text(dy=-8, fontWeight=600).encode(x=x, y=y, text=f"{over}:O"),
    ]
    if has_prior:
        layers.append(data(rows).mark_line(style="front").encode(x=x, y=prior))
    if has_other:
        layers.append(data(rows).mark_point(style="others", size=50, opacity=1).encode(x=x, y=other, tooltip=tooltip))
    return spec_of(layers, f"Probability of every {over}", height=HEIGHT - 40)


def reliability(predictors: Sequence[PredictorRecord]) -> Spec:
    """How often predictions are right against how confident they are; calibrated ones lie on the diagonal."""
    rows = [
        {**part.model_dump(), "predictor": one.name, "range": f"{part.low:.2f} to {part.high:.2f}"}
        for one in predictors
        for part in one.reliability
        if part.count
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


def risk_coverage(predictors: Sequence[PredictorRecord], error: str = "error rate", y_format: str = "~%") -> Spec:
    """The mean error among the answered examples; a rule marks the share below the threshold.

    Args:
        error: what the mean error of predictions is called.
    """
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
    x = alt.X("coverage:Q", title="share answered", scale=alt.Scale(domain=[0, 1]), axis=percentage)
    y = alt.Y("risk:Q", title=f"{error} among these", axis=alt.Axis(format=y_format, tickCount=5))
    answered = alt.Tooltip("coverage:Q", title="answered", format=".1%")
    tooltip = [
        alt.Tooltip("predictor:N"),
        answered,
        alt.Tooltip("risk:Q", title=error, format=".2%" if y_format == "~%" else ".4~g"),
    ]
    limit = alt.Tooltip("threshold:Q", title="threshold", format=".3~g")
    layers = [
        data(thresholds)
        .mark_rule(strokeDash=[4, 4], strokeWidth=1.6)
        .encode(x=x, color=colour, tooltip=[alt.Tooltip("predictor:N"), answered, limit]),
        data(rows).mark_line(strokeWidth=2.2).encode(x=x, y=y, color=colour),
        data(rows).mark_point(opacity=0, size=80).encode(x=x, y=y, color=colour, tooltip=tooltip),
    ]
    return spec_of(layers, "Mean error against the share answered", height=HEIGHT + 20)


def _predictor_colour(predictors: Sequence[PredictorRecord], symbol: str) -> alt.Color:
    names = [one.name for one in predictors]
    return alt.Color("predictor:N", scale=alt.Scale(domain=names), title=None, legend=legend(names, symbol))


LOSSES = {"loss": "training loss", "valid_loss": "validation loss"}


def charts(results: Results, contenders: Sequence[Entry], *, spells_out: bool = True) -> Iterator[tuple[str, Spec]]:
    """Ids of places on the page and what is drawn there, as far as the run has come.

    Args:
        spells_out: whether a learned distribution is shown option by option.
    """
    if contenders:
        yield "contenders", plots.contenders(contenders)
    supernet = list(curve(results.training.history, LOSSES))
    if supernet:
        yield "supernet", plots.curves(supernet, "loss (nats)")
    trained = trained_alone(results)
    if trained:
        yield from retraining(trained[0], ScoreText.of(results))
    if results.training.q and spells_out:
        yield "options", option_chart(learned_shares(results.training.q, results.space.get("choices") or {}))
    if any(one.reliability for one in results.predictors):
        yield "reliability", plots.reliability(results.predictors)
    if any(one.coverage for one in results.predictors):
        kind = results.task.kind
        words = {"regression": ("mean absolute error", ".3~g"), "own": ("loss above the lowest", ".3~g")}
        yield "risk", plots.risk_coverage(results.predictors, *words.get(kind, ("error rate", "~%")))
    yield from number_charts(results)


def trained_alone(results: Results) -> list[Sequence[NetworkRecord]]:
    """The runs of every contender with a training of its own, in the order of the comparison."""
    return [one.runs for one in results.comparison or [] if any(run.history for run in one.runs)]


def retraining(runs: Sequence[NetworkRecord], text: ScoreText, name: str = "retraining") -> Iterator[tuple[str, Spec]]:
    """Losses and validation score of every seed over the epochs."""
    losses = _over_epochs(runs, LOSSES)
    if losses:
        yield name, plots.curves(losses, "loss (nats)")
    title = f"validation {text.title}"
    scores = _over_epochs(runs, {f"valid_{text.metric.name}": title})
    if scores:
        yield f"{name}-score", plots.curves(scores, title, text.axis_format)


def _over_epochs(runs: Sequence[NetworkRecord], names: Mapping[str, str]) -> list[Row]:
    return [{**row, "seed": run.seed} for run in runs for row in curve(run.history, names)]
