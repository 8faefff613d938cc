"""Charts of one network with many architectures: what more members bring, and both modes of normalisation."""

from collections.abc import Iterator

import altair as alt

from polyarch.methods.stochastic.record import NormModesRecord, StochasticRecord
from polyarch.reports.plots import curves
from polyarch.reports.specs import HEIGHT, Row, Spec, data, spec_of

_CURVES = (
    ("members-accuracy", "accuracy", "test accuracy", "~%"),
    ("members-loss", "loss", "test loss (nats)", ".3~g"),
    ("members-calibration", "calibration_error", "calibration error", ".3~g"),
)


def stochastic_charts(record: StochasticRecord) -> Iterator[tuple[str, Spec]]:
    """Ids of places on the page and what is drawn there."""
    kept = sum(1 for member in record.members if member.weight)
    if len(record.curve) > 1:
        for name, field, title, y_format in _CURVES:
            rows: list[Row] = [
                {"members": one.members, "value": getattr(one, field), "series": title} for one in record.curve
            ]
            yield name, curves(rows, title, y_format, over="members", marked=kept)
    if record.statistics is not None:
        yield "norm-modes", norm_modes(record.statistics)


def norm_modes(found: NormModesRecord) -> Spec:
    """Accuracy with running statistics against accuracy with those of the batch; the diagonal is where they agree."""
    rows = [{"batch": batch, "running": running} for batch, running in zip(found.batch, found.running, strict=True)]
    low, high = min(*found.batch, *found.running), max(*found.batch, *found.running)
    axis, scale = alt.Axis(format="~%", tickCount=5), alt.Scale(domain=[low, high], zero=False, padding=14)
    x = alt.X("batch:Q", title="batch statistics", scale=scale, axis=axis)
    y = alt.Y("running:Q", title="running statistics", scale=scale, axis=axis)
    tooltip = [alt.Tooltip("batch:Q", format=".2%"), alt.Tooltip("running:Q", format=".2%")]
    diagonal = data([{"batch": low, "running": low}, {"batch": high, "running": high}])
    layers = [
        diagonal.mark_line(style="diagonal").encode(x=x, y=y),
        data(rows).mark_point(style="best", filled=True, size=70, opacity=0.8).encode(x=x, y=y, tooltip=tooltip),
    ]
    return spec_of(layers, "Validation accuracy with running statistics against batch statistics", height=HEIGHT)
