"""The page of a comparison: one file that needs nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt

from polyarch.files import write_atomically
from polyarch.overview.comparison import Comparison, Difference, GroupRecord, RunGroup
from polyarch.overview.frames import curves_of, sizes_of
from polyarch.reports.headline import Entry
from polyarch.reports.page import filled
from polyarch.reports.plots import contenders, curves
from polyarch.reports.score_text import ScoreText
from polyarch.reports.section import Cell, Line, SortableTable
from polyarch.reports.specs import HEIGHT, Row, Spec, data, evenly, legend, spec_of
from polyarch.reports.text import count, figures, several
from polyarch.results import Role

TEMPLATE = Path(__file__).parent / "templates" / "comparison.html"


def write_page(comparison: Comparison, path: Path) -> None:
    """Writes the page of a comparison."""
    write_atomically(path, render(comparison))


def render(comparison: Comparison) -> str:
    """The comparison as HTML; every text from the results is escaped. Needs the ``report`` extra."""
    found = dict(charts(comparison))
    values = {
        "record": comparison.record,
        "score": comparison.text,
        "data": sorted({str(one.results.data["name"]) for group in comparison.groups for one in group.runs}),
        "sentences": list(sentences(comparison)),
        "table": table(comparison),
        "settings": {name: [_shown(value) for value in one] for name, one in comparison.settings.items()},
        "losses": [name.removeprefix("losses-") for name in found if name.startswith("losses-")],
        "polyarch": comparison.groups[0].runs[0].results.polyarch,
    }
    return filled(TEMPLATE, found, values)


def sentences(comparison: Comparison) -> Iterator[str]:
    """How good the first group is, and how far the others are from it."""
    first, *others = comparison.groups
    text = comparison.text
    yield f"{first.name} reaches {text.estimate(first.score(text))} test {text.title}{_over_seeds(first)}."
    for group in others:
        found = comparison.difference(group)
        yield f"{group.name} is {text.compared(found.estimate)} {first.name}{_worth(found, group)}."


def _over_seeds(group: RunGroup) -> str:
    return f" over {several(len(group.runs), 'seed')}" if len(group.runs) > 1 else ""


def _worth(found: Difference, group: RunGroup) -> str:
    """On what the difference was measured, and whether it may be chance."""
    if found.estimate.interval is None:
        return "; earlier versions did not keep what intervals are made of"
    wins = "" if found.better is None else f" (better with {found.better} of {several(len(group.runs), 'seed')})"
    shared = f"on the same {found.paired}" if found.paired else "on other test examples"
    return f" {shared}{wins}, {'more than chance' if found.estimate.is_clear else 'which may be chance'}"


def table(comparison: Comparison) -> SortableTable:
    """A line for every group."""
    text, groups = comparison.text, comparison.groups
    headings = (
        "runs", "answer", f"test {text.title}", "against the first", "NLL", "calibration error", "network alone",
        "parameters", "minutes per run",
    )  # fmt: skip
    records = comparison.record.groups
    best = text.metric.best(records, lambda one: one.score.value)
    lines = [
        Line(_cells(comparison, group, record), is_best=record is best)
        for group, record in zip(groups, records, strict=True)
    ]
    return SortableTable(headings, tuple(lines), keys=(0, 1))


def _cells(comparison: Comparison, group: RunGroup, record: GroupRecord) -> tuple[Cell, ...]:
    text, is_first = comparison.text, group is comparison.groups[0]
    gain = None if is_first else comparison.difference(group).estimate
    seeds = f" ({several(len(record.seeds), 'seed')})" if len(record.seeds) > 1 else ""
    return (
        Cell(f"{record.name}{seeds}"),
        Cell(record.answer),
        Cell(text.estimate(group.score(text)), record.score.value),
        Cell("–") if gain is None else Cell(text.signed_estimate(gain), gain.value),
        Cell(text.loss_of(*(one.answer for one in group.runs)), record.loss.value),
        _calibration(record),
        Cell(text.score_of(*(one.single for one in group.runs)), record.single.value),
        _number(record.parameters, lambda value: count(round(value))),
        Cell(figures(record.minutes), record.minutes),
    )


def _calibration(record: GroupRecord) -> Cell:
    floor = "" if record.calibration_floor is None else f" (noise alone {record.calibration_floor:.4f})"
    return _number(record.calibration_error, lambda value: f"{value:.4f}{floor}")


def _number(value: float | None, shown: Any) -> Cell:
    return Cell("–") if value is None else Cell(shown(value), value)


def charts(comparison: Comparison) -> Iterator[tuple[str, Spec]]:
    """Scores with intervals, fronts over each other, learning curves, and where the time went."""
    text = comparison.text
    best = text.metric.best(comparison.groups, lambda group: group.score(text).value)
    entries = [
        Entry(one.name, Role.BASELINE, one.score(text).value, tuple(run.answer for run in one.runs), text, one is best)
        for one in comparison.groups
    ]
    yield "contenders", contenders(entries)
    points = [point for group in comparison.groups for point in _sizes(group, text)]
    if points:
        yield "fronts", fronts(points, text)
    losses = [point for group in comparison.groups for point in _losses(group)]
    for over in dict.fromkeys(point["over"] for point in losses):
        rows = [{**point, over: point["at"]} for point in losses if point["over"] == over]
        yield f"losses-{over}", curves(rows, "training loss", over=over)
    yield "times", times(comparison)


def fronts(points: list[Row], text: ScoreText) -> Spec:
    """Test scores over the parameters: the sizes of fronts, and the networks that others export alone."""
    names = list(dict.fromkeys(str(point["series"]) for point in points))
    colour = alt.Color("series:N", title=None, scale=alt.Scale(domain=names), legend=legend(names, "circle"))
    x = alt.X(
        "parameters:Q", scale=alt.Scale(type="log", nice=False, padding=14), axis=alt.Axis(format="~s", tickCount=6)
    )
    direction = ", lower is better" if text.metric.goal == "minimise" else ""
    y_axis = alt.Axis(format=text.axis_format)
    y = alt.Y("score:Q", title=f"test {text.title}{direction}", scale=alt.Scale(zero=False), axis=y_axis)
    base = data(points)
    tooltip = [
        alt.Tooltip("series:N", title="runs"),
        alt.Tooltip("parameters:Q", format=","),
        alt.Tooltip("shown:N", title=text.title),
    ]
    layers = [
        base.mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour, detail="run:N"),
        data([point for point in points if point["low"] is not None])
        .mark_rule(opacity=0.6)
        .encode(x=x, y="low:Q", y2="high:Q", color=colour),
        base.mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, color=colour, tooltip=tooltip),
    ]
    return spec_of(layers, f"Test {text.title} over the parameters: {', '.join(names)}", height=HEIGHT)


def times(comparison: Comparison) -> Spec:
    """Minutes of every stage, the mean over the runs of a group."""
    rows = [
        {
            "name": group.name,
            "stage": stage,
            "minutes": sum(one.results.seconds.get(stage, 0.0) for one in group.runs) / len(group.runs) / 60,
        }
        for group in comparison.groups
        for stage in dict.fromkeys(name for one in group.runs for name in one.stage_seconds)
    ]
    stages = list(dict.fromkeys(str(row["stage"]) for row in rows))
    bars = data(rows).mark_bar(height=18).encode(
        x=alt.X("minutes:Q", title="minutes per run", stack=True),
        y=alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelLimit=200)),
        color=alt.Color("stage:N", title=None, scale=alt.Scale(domain=stages), legend=legend(stages)),
        tooltip=["name:N", "stage:N", alt.Tooltip("minutes:Q", format=".2f")],
    )  # fmt: skip
    return spec_of([bars], "Minutes of every stage", height=44 * len(comparison.groups))


def _sizes(group: RunGroup, text: ScoreText) -> Iterator[Row]:
    """The sizes of fronts, or the networks that are exported alone."""
    for run in group.runs:
        parameters = (run.results.artifact or {}).get("parameters")
        found: list[tuple[float, Any]] = [(one.parameters, one) for one in sizes_of(run.results)]
        for size, one in found or ([] if parameters is None else [(parameters, run.single)]):
            estimate = text.measured(one)
            low, high = estimate.interval or (None, None)
            known = {
                "run": str(run.folder),
                "score": estimate.value,
                "low": low,
                "high": high,
                "shown": text.estimate(estimate),
            }
            yield {"series": group.name, "parameters": size, **known}


def _losses(group: RunGroup) -> Iterator[Row]:
    """The training losses of every run's best network or, where there is none, of its supernet."""
    for run in group.runs:
        points = [point for point in curves_of(run.results) if point["measure"] == "loss"]
        first = next((point["network"] for point in points if point["network"] != "supernet"), "supernet")
        kept = [point for point in points if point["network"] == first]
        for index in evenly(len(kept)):
            yield {**kept[index], "series": group.name, "seed": run.seed}


def _shown(value: Any) -> str:
    return "–" if value is None else str(value)
