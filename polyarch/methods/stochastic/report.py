"""The part of a report about one network with many architectures: what its ensemble is worth and what it costs."""

import statistics
from collections.abc import Iterator
from pathlib import Path

import altair as alt
from markupsafe import Markup

from polyarch.methods.stochastic.record import NormModesRecord, StochasticRecord
from polyarch.reports.drawing import draw
from polyarch.reports.headline import Entry, entries, predictor_in, with_role
from polyarch.reports.plots import curves
from polyarch.reports.score_text import ScoreText
from polyarch.reports.section import Section, Tile
from polyarch.reports.specs import HEIGHT, Row, Spec, data, spec_of
from polyarch.reports.text import SPACE, count, the, with_noise
from polyarch.results import PredictorRecord, Results, Role

MOST_PICTURES = 12
"""Further members are in the table only."""

NAMES = {
    "uniform": "all have the same weight",
    "posterior": "their weights are the posterior given the validation examples",
    "stacked": "their weights maximise the likelihood of the validation examples",
    "mutual_information": "disagreement of members (mutual information)",
    "max_probability": "1 - highest probability",
    "gaussian_noise": "noise",
    "gaussian_blur": "blur",
}
"""Of weightings, scores and corruptions."""


def section(results: Results) -> Section:
    """The ensemble, its members, what more members bring, and how well corrupted images are detected."""
    record = results.found(StochasticRecord)
    if record is None:
        return Section()
    kind, compared = str(results.space["kind"]), _compared(results)
    pictures = [Markup(draw(member.architecture, kind)) for member in record.members[:MOST_PICTURES]]
    return Section(
        Path(__file__).with_name("report.html"),
        sentences=None if compared is None else list(_sentences(results, record, *compared)),
        tiles=None if compared is None else list(_tiles(results, record, *compared)),
        answer=Role.MIXTURE,
        charts=dict(stochastic_charts(record, ScoreText.of(results))),
        values={
            "record": record,
            "noun": "wiring" if kind == "wired" else "architecture",
            "names": NAMES,
            "mean": statistics.fmean,
            "pictures": pictures if kind == "wired" else [],
        },
    )


def _compared(results: Results) -> tuple[Entry, Entry, Entry] | None:
    """The ensemble, its best member, and the network trained alone."""
    found = entries(results)
    ensemble, best, alone = (with_role(found, role) for role in (Role.MIXTURE, Role.BEST, Role.BASELINE))
    return None if ensemble is None or best is None or alone is None else (ensemble, best, alone)


def _sentences(
    results: Results, record: StochasticRecord, ensemble: Entry, best: Entry, baseline: Entry
) -> Iterator[str]:
    """The result in words; what a single run cannot tell is said."""
    chance = "" if len(baseline.scores) > 1 else " Each was trained once: small differences may be chance."
    text = ensemble.text
    yield (
        f"On {results.data['name']}, the {ensemble.name} reaches {text.value(ensemble.mean)} test {text.title}, "
        f"{ensemble.against(best)} its best member alone ({text.value(best.mean)}) and {ensemble.against(baseline)} "
        f"the {baseline.name} ({baseline.shown}).{chance}"
    )
    macs, member_macs = count(round(record.ensemble_macs)), count(round(record.member_macs))
    yield (
        f"It costs {_times(record)}{SPACE}times the multiply-accumulates of its best member alone ({macs} instead of "
        f"{member_macs} per example) and has {count(record.parameters)} parameters."
    )
    together, alone = predictor_in(results, "ensemble"), predictor_in(results, None)
    if together is not None and alone is not None:
        yield _before_scaling(together, alone)


def _before_scaling(together: PredictorRecord, alone: PredictorRecord) -> str:
    """What the metrics were at temperature 1; only probabilities have a calibration error."""
    sides = (together, alone)
    ours, theirs = (f"{one.uncalibrated['loss']:.4f}" for one in sides)
    if any("calibration_error" not in one.uncalibrated for one in sides):
        return (
            f"Before temperature scaling, its mean negative log-likelihood is {ours} nats; that of {the(alone.name)} "
            f"is {theirs}."
        )
    error, other = (with_noise(one.uncalibrated["calibration_error"], one.calibration_before) for one in sides)
    return (
        f"Before temperature scaling, its calibration error is {error} and its mean negative log-likelihood {ours} "
        f"nats; for {the(alone.name)} they are {other} and {theirs}."
    )


def _tiles(results: Results, record: StochasticRecord, ensemble: Entry, best: Entry, baseline: Entry) -> Iterator[Tile]:
    text = ensemble.text
    yield Tile(f"test {text.title}", text.value(ensemble.mean), f"of the {ensemble.name}")
    yield Tile("vs. best member", text.signed(ensemble.mean - best.mean), text.unit)
    yield Tile("vs. one network", text.signed(ensemble.mean - baseline.mean), f"{text.unit}; {baseline.name}")
    together = predictor_in(results, "ensemble")
    if together is not None and "calibration_error" in together.uncalibrated:
        error, *noise = with_noise(together.uncalibrated["calibration_error"], together.calibration_before).split(
            " ", 1
        )
        yield Tile("calibration error", error, " ".join(["before temperature scaling", *noise]))
    yield Tile("cost", _times(record), "times that of its best member")
    yield Tile("parameters", count(record.parameters), "of the ensemble")


def _times(record: StochasticRecord) -> str:
    return f"{record.ensemble_macs / max(record.member_macs, 1.0):.2f}"


def stochastic_charts(record: StochasticRecord, text: ScoreText) -> Iterator[tuple[str, Spec]]:
    """Ids of places on the page and what is drawn there."""
    kept = sum(1 for member in record.members if member.weight)
    measures = (
        ("members-score", "score", f"test {text.title}", text.axis_format),
        ("members-loss", "loss", "test loss (nats)", ".3~g"),
        ("members-calibration", "calibration_error", "calibration error", ".3~g"),
    )
    if len(record.curve) > 1:
        for name, field, title, y_format in measures:
            if getattr(record.curve[0], field) is None:
                continue
            rows: list[Row] = [
                {"members": one.members, "value": getattr(one, field), "series": title} for one in record.curve
            ]
            if field == "calibration_error":
                rows = list(_with_floor(record, title))
            yield name, curves(rows, title, y_format, over="members", marked=kept)
    if record.statistics is not None:
        yield "norm-modes", norm_modes(record.statistics, text)


def _with_floor(record: StochasticRecord, title: str) -> Iterator[Row]:
    """Calibration errors with their intervals, and their noise floors, where these were measured."""
    for one in record.curve:
        row: Row = {"members": one.members, "value": one.calibration_error, "series": title}
        if one.calibration_floor is None:
            yield row
        else:
            yield {**row, "low": one.calibration_low, "high": one.calibration_high}
            yield {"members": one.members, "value": one.calibration_floor, "series": "noise floor"}


def norm_modes(found: NormModesRecord, text: ScoreText) -> Spec:
    """The score with running statistics against the score with those of the batch; the diagonal is where they agree."""
    batches, runnings = ([text.metric.gain(score) for score in side] for side in (found.batch, found.running))
    rows = [{"batch": batch, "running": running} for batch, running in zip(batches, runnings, strict=True)]
    low, high = min(*batches, *runnings), max(*batches, *runnings)
    axis, scale = alt.Axis(format=text.axis_format, tickCount=5), alt.Scale(domain=[low, high], zero=False, padding=14)
    x = alt.X("batch:Q", title="batch statistics", scale=scale, axis=axis)
    y = alt.Y("running:Q", title="running statistics", scale=scale, axis=axis)
    tooltip = [alt.Tooltip(f"{name}:Q", format=text.exact_format) for name in ("batch", "running")]
    diagonal = data([{"batch": low, "running": low}, {"batch": high, "running": high}])
    layers = [
        diagonal.mark_line(style="diagonal").encode(x=x, y=y),
        data(rows).mark_point(style="best", filled=True, size=70, opacity=0.8).encode(x=x, y=y, tooltip=tooltip),
    ]
    return spec_of(layers, f"Validation {text.title} with running statistics against batch statistics", height=HEIGHT)
