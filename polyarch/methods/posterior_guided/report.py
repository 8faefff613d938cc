"""The part of a report about a posterior-guided search: what was kept, how it was done, and all draws."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from polyarch.methods.posterior_guided.channel_pictures import (
    MOST_CELLS,
    channel_pictures,
    is_used,
    kept_channels,
    kept_text,
    probability,
)
from polyarch.methods.posterior_guided.headline import sentences, share_of, tiles
from polyarch.methods.posterior_guided.plots import draw_charts, training_charts
from polyarch.methods.posterior_guided.record import GatedLayer, GuidedRecord
from polyarch.reports.section import Section
from polyarch.reports.specs import MOST_POINTS
from polyarch.reports.tables import Cell, Line, SortableTable
from polyarch.reports.text import SPACE, count, limits_text, percent, several
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
            "done": " ".join(how_it_was_done(record)),
            "kept": " ".join(what_was_kept(record)),
            "pictures": [Markup(picture) for picture in channel_pictures(record)],
            "has_outputs": any(layer.side == "output" for layer in record.layers),
            "has_bins": any(len(layer.kept) > MOST_CELLS for layer in record.layers),
            "layers": layer_table(record),
            "most_draws": MOST_POINTS,
            "trained": next(trained, "the network alone").capitalize(),
        },
    )


def how_it_was_done(record: GuidedRecord) -> Iterator[str]:
    """The training, the draws, and what they are compared with."""
    groups, layers = len({layer.group for layer in record.layers}), len(record.layers)
    who = several(layers, "layer") if groups == layers else f"{several(groups, 'group')} of {several(layers, 'layer')}"
    yield (
        f"Kernels were trained together with one drop probability for each of {who}, {record.initial_drop:g} at the "
        f"start; every training example had a relaxed draw of its own, at temperature {record.temperature:g}."
    )
    scale = f"d{SPACE}={SPACE}{record.length_scale:.4g} (d²{SPACE}={SPACE}{record.length_scale**2:.4g})"
    if record.constant_decay is None:
        yield f"The length scale of the prior is {scale}: a larger one makes networks smaller."
    else:
        yield (
            f"Kernels had a constant weight decay of {record.constant_decay:g}, whatever their drop probability, instead "
            f"of the prior's d² (1 - p) / 2N with length scale {scale}."
        )
    if record.depths:
        yield "The depth has a learned posterior, too."
    yield (
        f"The search then drew {several(len(record.guided), 'network')} from the posterior, scored them on validation "
        "data with the weights they came with, and kept the best."
    )
    yield from _limits(record)
    if record.random:
        rate = "" if record.strength else f", {percent(record.keep_rate)}"
        yield (
            f"For comparison, it drew {count(len(record.random))} at random, with one rate for all channels and the same "
            f"expected share of kept ones{rate}."
        )
    yield f"The mixture averages the probabilities of {several(record.members, 'draw')}."


def what_was_kept(record: GuidedRecord) -> Iterator[str]:
    """What the pictures show, summed up."""
    used = [layer for layer in record.layers if is_used(layer, record)]
    kept, channels = kept_channels(record)
    empty = sum("1" not in layer.kept for layer in used)
    said = f"The best draw keeps {count(kept)} of {several(channels, 'channel')} ({share_of(kept, channels)})"
    if len(used) == len(record.layers):  # what the posterior expects is over all layers
        who = "posterior without the limits" if record.strength else "posterior"
        said += f"; the {who} expects {percent(record.keep_rate, 1)}"
    yield f"{said}."
    if empty:
        yield f"It drops {empty} of {several(len(used), 'layer')} entirely."
    beyond = len(record.layers) - len(used)
    if beyond:
        yield f"{several(beyond, 'layer')} beyond depth {record.best_depth} {'is' if beyond == 1 else 'are'} not part of it."


def layer_table(record: GuidedRecord) -> SortableTable:
    """A row per layer with a gate."""
    has_groups = any(layer.group != layer.name for layer in record.layers)
    lines = [_line(place, layer, record, has_groups) for place, layer in enumerate(record.layers, start=1)]
    groups = ("group",) if has_groups else ()
    headings = ("#", "layer", *groups, "gate on", "channels", "kept", "share kept", "drop probability")
    return SortableTable(headings, tuple(lines), keys=(1, 2) if has_groups else (1,))


def _limits(record: GuidedRecord) -> Iterator[str]:
    known = {"params": record.max_params, "macs": record.max_macs}
    limits = {name: value for name, value in known.items() if value is not None}
    if limits:
        yield f"Limits: {limits_text(limits)}. The posterior was kept within them while it was learned."
    if limits and record.strength:
        yield (
            f"Draws were made smaller to respect the limits (strength {count(record.strength)}), because hardly any of "
            "the posterior's own draws do."
        )
    elif limits:
        yield "Draws beyond them were rejected."


def _line(place: int, layer: GatedLayer, record: GuidedRecord, has_groups: bool) -> Line:
    used = is_used(layer, record)
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
