"""Charts of a race: the training losses of everyone, and validation losses against size."""

from collections.abc import Iterator

import altair as alt

from polyarch.methods.race.record import CandidateRecord, RaceRecord
from polyarch.reports.specs import HEIGHT, Row, Spec, data, spec_of


def race_charts(record: RaceRecord) -> Iterator[tuple[str, Spec]]:
    """The course of the race, and where everyone stood at the end of the first rung."""
    yield "race", course(record)
    yield "race-sizes", first_rung(record)


def course(record: RaceRecord) -> Spec:
    """The training loss of every candidate over its seconds; the winner and the plain network stand out."""
    x = alt.X("seconds:Q", title="seconds of training", scale=alt.Scale(type="symlog", nice=False))
    y = alt.Y("loss:Q", title="training loss (nats)", scale=alt.Scale(zero=False))
    tooltip = [
        alt.Tooltip("name:N", title="network"),
        alt.Tooltip("augmentation:N"),
        alt.Tooltip("seconds:Q", format=".1f"),
        alt.Tooltip("loss:Q", title="training loss", format=".4~g"),
    ]
    layers = []
    winner = record.candidates[record.best]
    for style, width, kept in (
        ("others", 1.2, [one for one in record.candidates if one is not winner and not one.is_reference]),
        ("front", 2.0, [one for one in record.candidates if one.is_reference and one is not winner]),
        ("best", 2.6, [winner]),
    ):
        rows = [row for one in kept for row in _curve(one, record.candidates.index(one))]
        if rows:
            encoded = data(rows).encode(x=x, y=y, detail="place:N")
            layers.append(
                encoded.mark_line(style=style, fillOpacity=0, strokeWidth=width, opacity=0.6 if width < 2 else 1)
            )
            layers.append(encoded.mark_point(opacity=0, size=60).encode(tooltip=tooltip))
    return spec_of(layers, "The training loss of every candidate over the seconds of its training", height=HEIGHT)


def first_rung(record: RaceRecord) -> Spec:
    """The validation loss of everyone who began afresh, after the first rung, against multiply-accumulates."""
    x = alt.X(
        "macs:Q",
        title="multiply-accumulates",
        scale=alt.Scale(type="log", padding=14),
        axis=alt.Axis(format="~s", tickCount=5, labelOverlap=True),
    )
    y = alt.Y("loss:Q", title="validation loss (nats)", scale=alt.Scale(zero=False, padding=14))
    tooltip = [
        alt.Tooltip("name:N", title="network"),
        alt.Tooltip("macs:Q", title="multiply-accumulates", format=",.0f"),
        alt.Tooltip("parameters:Q", format=",d"),
        alt.Tooltip("loss:Q", title="validation loss", format=".4~g"),
    ]
    fresh = [one for one in record.candidates if one.parent is None]
    winner = record.candidates[record.best]
    chosen = winner if winner.parent is None else record.candidates[winner.parent]
    layers = [
        data(_size(one) for one in group)
        .mark_point(style=style, filled=True, size=80, opacity=0.9)
        .encode(x=x, y=y, tooltip=tooltip)
        for style, group in (
            ("others", [one for one in fresh if one is not chosen and not one.is_reference]),
            ("front", [one for one in fresh if one.is_reference and one is not chosen]),
            ("best", [chosen]),
        )
        if group
    ]
    return spec_of(layers, "Validation losses after the first rung against multiply-accumulates", height=HEIGHT)


def _curve(one: CandidateRecord, place: int) -> Iterator[Row]:
    for point in one.curve:
        yield {
            "name": one.name,
            "augmentation": one.augmentation,
            "place": place,
            "seconds": point["seconds"],
            "loss": round(point["loss"], 5),
        }


def _size(one: CandidateRecord) -> Row:
    return {"name": one.name, "macs": one.macs, "parameters": one.parameters, "loss": round(one.legs[0].valid_loss, 5)}
