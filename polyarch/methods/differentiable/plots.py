"""Charts of a search by gradients: what was measured along it, and how q moved."""

from collections.abc import Iterator

import altair as alt

from polyarch.methods.differentiable.record import DifferentiableRecord
from polyarch.reports.plots import curves
from polyarch.reports.shares import learned_shares, option_chart
from polyarch.reports.specs import Row, Spec, curve, data, evenly, short_names, spec_of

CELLS = {"cell_depth": "cell", "cell_depth_normal": "normal cell", "cell_depth_reduce": "reduction cell"}
CELL_DEPTHS = {key: f"depth of the {cell}" for key, cell in CELLS.items()}
MOST_COLUMNS = 60
"""Epochs in the map of q: its cells cannot be narrower."""

_CURVES = (
    ("search-shape", {"skips": "skips", **CELL_DEPTHS}, "number", ".3~g"),
    ("search-entropy", {"entropy_share": "entropy of q"}, "share of the largest entropy", "~%"),
    ("search-eigenvalue", {"eigenvalue": "dominant eigenvalue"}, "dominant eigenvalue", ".3~g"),
    ("search-truth", {"true_accuracy": "true accuracy"}, "true accuracy (%)", ".3~g"),
    ("search-loss", {"loss": "loss of the weights", "q_loss": "loss of q"}, "loss (nats)", ".3~g"),
)


def differentiable_charts(record: DifferentiableRecord) -> Iterator[tuple[str, Spec]]:
    """Ids of places on the page and what is drawn there."""
    for name, keys, title, y_format in _CURVES:
        rows = list(curve(record.history, keys))
        if rows:
            yield name, curves(rows, title, y_format, marked=record.back_to)
    if record.marginals:
        q = record.marginals[record.kept_epoch]
        yield "search-q", option_chart(learned_shares(q, record.choices))
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
