"""The part of a report about a posterior-guided search: what was kept, how it was done, and all draws."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from polyarch.methods.posterior_guided.channel_pictures import MOST_CELLS, channel_pictures, kept_text, probability
from polyarch.methods.posterior_guided.plots import draw_charts, training_charts
from polyarch.methods.posterior_guided.record import DRAWN, FURTHER, UNIFORM, GatedLayer, GuidedRecord
from polyarch.reports.headline import Entry, answer_of, entries, with_role
from polyarch.reports.score_text import ScoreText
from polyarch.reports.section import Cell, Line, Section, SortableTable, Tile
from polyarch.reports.specs import MOST_POINTS
from polyarch.reports.text import count, percent, several, the, with_noise
from polyarch.results import Results, Role


def section(results: Results) -> Section:
    """The posterior and its draws; before they are drawn, the training alone."""
    template = Path(__file__).with_name("report.html")
    record = results.found(GuidedRecord)
    training = dict(training_charts(results))
    if record is None:
        return Section(template, spells_out=False, charts=training, values={"record": None, "trained": ""})
    trained = (one.name for one in results.comparison or [] if any(run.history for run in one.runs))
    return Section(
        template,
        sentences=sentences(results, record),
        tiles=list(tiles(results, record)),
        spells_out=False,
        charts={**training, **dict(draw_charts(record, ScoreText.of(results)))},
        values={
            "record": record,
            "share_of": share_of,
            "pictures": [Markup(picture) for picture in channel_pictures(record)],
            "most_cells": MOST_CELLS,
            "most_draws": MOST_POINTS,
            "layers": layer_table(record),
            "trained": next(trained, "").capitalize(),
        },
    )


def layer_table(record: GuidedRecord) -> SortableTable:
    """A row per layer with a gate."""
    has_groups = any(layer.group != layer.name for layer in record.layers)
    lines = [_line(place, layer, record, has_groups) for place, layer in enumerate(record.layers, start=1)]
    groups = ("group",) if has_groups else ()
    headings = ("#", "layer", *groups, "gate on", "channels", "kept", "share kept", "drop probability")
    return SortableTable(headings, tuple(lines), keys=(1, 2) if has_groups else (1,))


def _line(place: int, layer: GatedLayer, record: GuidedRecord, has_groups: bool) -> Line:
    used = record.uses(layer)
    kept = layer.kept.count("1") if used else 0
    cells = (
        Cell(str(place), place),
        Cell(layer.name),
        *([Cell(layer.group)] if has_groups else []),
        Cell(layer.side),
        Cell(count(len(layer.kept)), len(layer.kept)),
        Cell(count(kept), kept),
        Cell(kept_text(layer, used), layer.share if used else 0.0),
        Cell(probability(layer.drop), layer.drop),
    )
    return Line(cells)


def sentences(results: Results, record: GuidedRecord) -> list[str] | None:
    """The result in words; what a single run cannot tell is said. None without test results."""
    found = entries(results)
    best = answer_of(found)
    if best is None:
        return None
    draw = record.best_draw
    return [
        f"On {results.data['name']}, {the(best.name)} reaches {best.text.value(best.mean)} test {best.text.title} with "
        f"{share_of(draw.parameters, record.full_parameters)} of the parameters "
        f"({count(draw.parameters)} of {count(record.full_parameters)}) and "
        f"{share_of(draw.macs, record.full_macs)} of the multiply-accumulates of the whole network.",
        " ".join(_compared(record, best, found)),
        *_uniform(record, best, found),
        *_further(results, best, found),
        *_mixture(best, found),
        *_calibration(results),
    ]


def tiles(results: Results, record: GuidedRecord) -> Iterator[Tile]:
    """The numbers of the sentences, to be seen at a glance."""
    found, draw = entries(results), record.best_draw
    best, alone, random = answer_of(found), with_role(found, Role.BASELINE), with_role(found, Role.RANDOM)
    drawn = _named(found, DRAWN)
    if best is not None:
        yield Tile(f"test {best.text.title}", best.text.value(best.mean), f"of the {best.name}")
    if best is not None and alone is not None:
        yield Tile("vs. whole network", best.text.signed(best.mean - alone.mean), f"{best.text.unit}; trained alone")
    uniform = _named(found, UNIFORM)
    if best is not None and uniform is not None:
        difference = best.text.signed(best.mean - uniform.mean)
        yield Tile("vs. uniform width", difference, f"{best.text.unit}; as many operations")
    if drawn is not None and random is not None:
        yield Tile(
            "vs. random draws", drawn.text.signed(drawn.mean - random.mean), f"{drawn.text.unit}; no further training"
        )
    parameters = f"{count(draw.parameters)} of {count(record.full_parameters)}"
    yield Tile("parameters left", share_of(draw.parameters, record.full_parameters), parameters)
    macs = f"{count(round(draw.macs))} of {count(round(record.full_macs))} MACs"
    yield Tile("operations left", share_of(draw.macs, record.full_macs), macs)
    kept, channels = record.kept_channels
    yield Tile("channels kept", share_of(kept, channels), f"{count(kept)} of {count(channels)}")


def share_of(part: float, whole: float) -> str:
    """40.0 %."""
    return percent(part / max(whole, 1), 1)


def _compared(record: GuidedRecord, best: Entry, found: Sequence[Entry]) -> Iterator[str]:
    """With the whole network and, as drawn, with random draws: further training would hide what the posterior adds."""
    alone = with_role(found, Role.BASELINE)
    if alone is not None:
        yield f"That is {best.against(alone)} the {alone.name} ({alone.shown})."
    drawn, random, whole = _named(found, DRAWN), with_role(found, Role.RANDOM), with_role(found, Role.INHERITED)
    if drawn is not None:
        number = several(len(record.guided), "draw")
        said = f"With the weights of the search and no further training, the best of {number} reaches {drawn.shown}"
        if random is not None:
            number = several(len(record.random), "random draw")
            said += f", {drawn.against(random)} the best of {number} at one rate ({random.shown})"
        if whole is not None:
            said += f"{' and' if random is not None else ','} {drawn.against(whole)} the whole network ({whole.shown})"
        yield f"{said}."
    if alone is not None and len(alone.scores) > 1:
        yield "The search ran once: small differences may be chance."
    else:
        yield "Each was trained once: small differences may be chance."


def _uniform(record: GuidedRecord, best: Entry, found: Sequence[Entry]) -> Iterator[str]:
    """With the plain way to as many operations, which may well be better."""
    uniform = _named(found, UNIFORM)
    if uniform is None or record.uniform_width is None:
        return
    said = (
        f"A network of uniform width with as many multiply-accumulates, every layer with "
        f"{percent(record.uniform_width, 0)} of its channels, trained from scratch as long, reaches {uniform.shown}: "
        f"the {best.name} is {best.against(uniform)} it."
    )
    yield said if best.mean >= uniform.mean else f"{said} Here the plain way does better."


def _further(results: Results, best: Entry, found: Sequence[Entry]) -> Iterator[str]:
    drawn, further = _named(found, DRAWN), _named(found, FURTHER)
    if drawn is None or further is None:
        return
    if best is further:
        yield f"After further training, the best draw is {further.against(drawn)} the same network as drawn."
    else:
        why = "; on validation data that was worse, so it is exported as drawn" if results.predictors else ""
        yield f"Trained further, it reaches {further.shown}{why}."


def _mixture(best: Entry, found: Sequence[Entry]) -> Iterator[str]:
    mixture = with_role(found, Role.MIXTURE)
    if mixture is not None:
        yield f"The {mixture.name} reaches {mixture.shown}, {mixture.against(best)} the {best.name}."


def _calibration(results: Results) -> Iterator[str]:
    if len(results.predictors) > 1 and all("calibration_error" in one.uncalibrated for one in results.predictors):
        errors = [
            f"{with_noise(one.uncalibrated['calibration_error'], one.calibration_before)} for the {one.name}"
            for one in results.predictors
        ]
        yield f"Calibration errors before temperature scaling: {'; '.join(errors)}."


def _named(found: Sequence[Entry], name: str) -> Entry | None:
    return next((entry for entry in found if entry.name == name), None)
