"""The part of a report about a search by gradients: what q selects, how certain it is, and what went wrong."""

from collections.abc import Iterator
from pathlib import Path

import altair as alt

from polyarch.methods.differentiable.record import DifferentiableRecord
from polyarch.reports.plots import curves
from polyarch.reports.section import Section
from polyarch.reports.shares import learned_shares, option_chart
from polyarch.reports.specs import Row, Spec, curve, data, evenly, short_names, spec_of
from polyarch.reports.text import key_of, listed, percent, several
from polyarch.results import Results

MOST_CHANGES = 20
GRADIENTS = {
    "first_order": "of the held-out loss",
    "second_order": "of the held-out loss after one more step of the weights",
    "second_order_difference": "of the held-out loss after one more step of the weights, by finite differences",
    "sotl": "of the sum of training losses",
    "sotl_exact": "of the sum of training losses, through all steps",
    "sovl": "of the sum of held-out losses",
}
_CERTAINTIES = ((0.1, "certain"), (0.5, "fairly certain"), (0.9, "uncertain"))
"""Shares of the largest entropy below which a word fits."""


def section(results: Results) -> Section:
    """How q moved, and what the guard against collapse found."""
    record = results.found(DifferentiableRecord)
    if record is None:
        return Section()
    changes = list(changes_of(record))
    return Section(
        Path(__file__).with_name("report.html"),
        charts=dict(differentiable_charts(record)),
        values={
            "record": record,
            "course": " ".join(sentences(record)),
            "gradient": GRADIENTS.get(record.gradient, record.gradient),
            "headings": list(_columns(record).values()),
            "changes": changes[-MOST_CHANGES:],
            "changed": len(changes),
        },
    )


def changes_of(record: DifferentiableRecord) -> Iterator[tuple[int, str, list[str]]]:
    """Every architecture that q selected: since which epoch, its key, and what was measured of it."""
    columns = _columns(record)
    for epoch, key in enumerate(record.architectures):
        if not epoch or key != record.architectures[epoch - 1]:
            yield epoch, key, [_cell(record.history[epoch], column) for column in columns]


def sentences(record: DifferentiableRecord) -> Iterator[str]:
    """What q selects and how certain it is; true accuracies and findings, where there are any."""
    if not record.architectures:
        yield "No epoch has finished yet."
        return
    epoch = record.kept_epoch
    row = record.history[epoch]
    parts = [f"{several(int(row['skips']), 'skip')} ({percent(row['skip_share'], 0)} of its operations)"]
    parts += [f"a {cell} of depth {row[key]:.0f}" for key, cell in CELLS.items() if key in row]
    yield f"After epoch {epoch}, q selects an architecture with {listed(parts)}."
    certainty = next((word for limit, word in _CERTAINTIES if row["entropy_share"] < limit), "undecided")
    yield f"q is {certainty}: its entropy is {percent(row['entropy_share'], 0)} of the largest possible."
    since = epoch
    while since and record.architectures[since - 1] == record.architectures[epoch]:
        since -= 1
    yield f"It has selected this architecture since epoch {since}."
    if key_of(record.architecture) != record.architectures[epoch]:
        yield f"The architecture that was chosen in the end is another one, by {record.discretisation}."
    truths = {int(one["epoch"]): one["true_accuracy"] for one in record.history if "true_accuracy" in one}
    if epoch in truths:
        best = max(truths, key=lambda known: truths[known])
        yield (
            f"Its true accuracy, read from a table, is {percent(truths[epoch] / 100)}; the best that q ever selected "
            f"has {percent(truths[best] / 100)} (epoch {best})."
        )
    if record.findings:
        yield f"The guard against collapse reports: {record.findings[0]}"


def _columns(record: DifferentiableRecord) -> dict[str, str]:
    names = {"skips": "skips", **CELL_DEPTHS, "entropy_share": "entropy", "true_accuracy": "true accuracy"}
    return {key: name for key, name in names.items() if any(key in row for row in record.history)}


def _cell(row: dict[str, float], column: str) -> str:
    if column not in row:
        return "–"
    value = row[column]
    return {"entropy_share": percent(value), "true_accuracy": percent(value / 100)}.get(column, f"{value:.0f}")


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
