"""The part of a report about a posterior-guided search: what was kept, how it was done, and all draws."""

from pathlib import Path

from markupsafe import Markup

from polyarch.methods.posterior_guided.channel_pictures import MOST_CELLS, channel_pictures, kept_text, probability
from polyarch.methods.posterior_guided.headline import sentences, share_of, tiles
from polyarch.methods.posterior_guided.plots import draw_charts, training_charts
from polyarch.methods.posterior_guided.record import GatedLayer, GuidedRecord
from polyarch.reports.section import Cell, Line, Section, SortableTable
from polyarch.reports.specs import MOST_POINTS
from polyarch.reports.text import count
from polyarch.results import Results


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
        charts={**training, **dict(draw_charts(record))},
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
