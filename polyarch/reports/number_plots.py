"""Charts of a regression: predicted against true, residuals, and the coverage of intervals."""

from collections.abc import Iterator

import altair as alt

from polyarch.reports.specs import HEIGHT, Spec, data, legend, spec_of
from polyarch.results import NumberPoints, PredictorRecord, Results


def number_charts(results: Results) -> Iterator[tuple[str, Spec]]:
    """Ids of places on the page and what is drawn there, of the predictor that is the answer."""
    answer = shown_predictor(results)
    if answer is None:
        return
    for index, points in enumerate(answer.points):
        yield f"predicted-{index}", predicted_against_true(points)
        yield f"residuals-{index}", residuals(points)
    yield "levels", levels([one for one in results.predictors if one.levels])


def shown_predictor(results: Results) -> PredictorRecord | None:
    """The default predictor, if it predicts numbers."""
    found = [one for one in results.predictors if one.points]
    return next((one for one in found if one.folder == results.default), found[0] if found else None)


def predicted_against_true(points: NumberPoints) -> Spec:
    """The expected value of test examples against the true one, with intervals; exact ones lie on the diagonal."""
    rows = _rows(points)
    ends = [min(*points.true, *points.mean), max(*points.true, *points.mean)]
    scale = alt.Scale(zero=False, nice=True)
    x = alt.X("true:Q", title=f"true {points.name}", scale=scale, axis=alt.Axis(tickCount=6))
    y = alt.Y("mean:Q", title=f"predicted {points.name}", scale=scale, axis=alt.Axis(tickCount=6))
    layers = [
        data(rows).mark_rule(style="others", opacity=0.25).encode(x=x, y=alt.Y("low:Q"), y2="high:Q"),
        data([{"true": end, "mean": end} for end in ends]).mark_line(style="diagonal").encode(x=x, y=y),
        data(rows).mark_point(style="best", filled=True, size=26, opacity=0.7).encode(x=x, y=y, tooltip=_tooltip()),
    ]
    return spec_of(layers, f"Predicted against true {points.name}", height=HEIGHT + 20)


def residuals(points: NumberPoints) -> Spec:
    """True minus expected value against the expected one; without structure where nothing more could be learned."""
    rows = [{**row, "residual": row["true"] - row["mean"]} for row in _rows(points)]
    x = alt.X("mean:Q", title=f"predicted {points.name}", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6))
    y = alt.Y("residual:Q", title="true - predicted", axis=alt.Axis(tickCount=6))
    zero = data([{"residual": 0}]).mark_rule(style="diagonal").encode(y=y)
    dots = data(rows).mark_point(style="best", filled=True, size=26, opacity=0.7).encode(x=x, y=y, tooltip=_tooltip())
    return spec_of([zero, dots], f"Residuals of {points.name}", height=HEIGHT + 20)


def levels(predictors: list[PredictorRecord]) -> Spec:
    """The share of test targets inside central intervals against their probability."""
    rows = [{**point.model_dump(), "predictor": one.name} for one in predictors for point in one.levels]
    names = [one.name for one in predictors]
    colour = alt.Color("predictor:N", scale=alt.Scale(domain=names), title=None, legend=legend(names, "circle"))
    axis, unit = alt.Axis(format="~%", tickCount=5), alt.Scale(domain=[0, 1])
    x = alt.X("level:Q", title="probability of the interval", scale=unit, axis=axis)
    y = alt.Y("covered:Q", title="test targets inside", scale=unit, axis=axis)
    tooltip = [
        alt.Tooltip("predictor:N"),
        alt.Tooltip("level:Q", title="probability", format=".0%"),
        alt.Tooltip("covered:Q", title="inside", format=".1%"),
    ]
    diagonal = data([{"level": 0, "covered": 0}, {"level": 1, "covered": 1}])
    layers = [
        diagonal.mark_line(style="diagonal").encode(x=x, y=y),
        data(rows).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
        data(rows).mark_point(filled=True, opacity=0.85, size=60).encode(x=x, y=y, color=colour, tooltip=tooltip),
    ]
    return spec_of(layers, "Coverage of central intervals against their probability", height=HEIGHT + 20)


def _rows(points: NumberPoints) -> list[dict[str, float]]:
    columns = ("true", "mean", "std", "low", "high")
    values = zip(*(getattr(points, name) for name in columns), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def _tooltip() -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:Q", format=".4~g") for name in ("true", "mean", "std", "low", "high")]
