"""Charts of a search by gradients: what was measured along it, and how q moved."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from polyarch.methods.differentiable.report import CELL_DEPTHS, kept_epoch
from polyarch.reports.distribution import Share, Shares
from polyarch.reports.plots import curves, option_bars, option_map
from polyarch.reports.specs import Row, Spec, data, short_names, spec_of
from polyarch.reports.thinning import curve, evenly
from polyarch.results import DifferentiableRecord

MOST_COLUMNS = 60
"""Epochs of the map of q: cells of it are as narrow as they may be."""

_CURVES = (
    ("search-shape", {"skips": "skips", **CELL_DEPTHS}, "number", ".3~g"),
    ("search-entropy", {"entropy_share": "entropy of q"}, "share of the largest entropy", "~%"),
    ("search-eigenvalue", {"eigenvalue": "dominant eigenvalue"}, "dominant eigenvalue", ".3~g"),
    ("search-truth", {"true_accuracy": "true accuracy"}, "true accuracy (%)", ".3~g"),
    ("search-loss", {"loss": "loss of the weights", "q_loss": "loss of q"}, "loss (nats)", ".3~g"),
)


def differentiable_charts(record: DifferentiableRecord) -> Iterator[tuple[str, Spec]]:
    """Names of places on the page to specifications."""
    for name, keys, title, y_format in _CURVES:
        rows = list(curve(record.history, keys))
        if rows:
            yield name, curves(rows, title, y_format, marked=record.back_to)
    if record.marginals:
        shares = _final(record)
        largest = max(share.share for share in shares.shares)
        yield "search-q", option_bars([shares]) if len(shares.choices) == 1 else option_map(shares, largest)
        yield "search-path", path_of_q(record)


def path_of_q(record: DifferentiableRecord) -> Spec:
    """Choices in rows, epochs in columns, the probability of the most probable option as colour."""
    epochs = evenly(len(record.marginals), MOST_COLUMNS)
    names = dict(zip(record.choices, short_names(list(record.choices)), strict=True))
    rows: list[Row] = []
    for epoch in epochs:
        for choice, probabilities in record.marginals[epoch].items():
            largest = max(probabilities)
            option = record.choices[choice][probabilities.index(largest)]
            rows.append(
                {"epoch": epoch, "label": names[choice], "choice": choice, "option": option, "probability": largest}
            )
    strongest = max(row["probability"] for row in rows)
    cells = data(rows).mark_rect(style="tile", strokeWidth=0.5).encode(
        x=alt.X("epoch:O", title="epoch", axis=alt.Axis(labelAngle=0, labelOverlap=True, labelSeparation=8)),
        y=alt.Y("label:N", scale=alt.Scale(domain=list(names.values())), title=None, axis=alt.Axis(labelLimit=140)),
        color=alt.Color("probability:Q", scale=alt.Scale(domain=[0, strongest]), legend=None),
        tooltip=[
            alt.Tooltip("epoch:O"),
            alt.Tooltip("choice:N"),
            alt.Tooltip("option:N", title="most probable"),
            alt.Tooltip("probability:Q", format=".1%"),
        ],
    )  # fmt: skip
    return spec_of([cells], "Probability of the most probable option of every choice", height=22 * len(names))


def _final(record: DifferentiableRecord) -> Shares:
    shares = [
        Share(choice, option, position, probability)
        for choice, probabilities in record.marginals[kept_epoch(record)].items()
        for position, (option, probability) in enumerate(zip(record.choices[choice], probabilities, strict=True))
    ]
    return Shares("the learned distribution q", tuple(shares))
