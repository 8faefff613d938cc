"""A posterior-guided search in words: how good and how small the best draw is, what was kept, and how it was done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from polyarch.methods.posterior_guided.channels import MOST_CELLS, channel_pictures, is_used, outcome, probability
from polyarch.methods.posterior_guided.course import done
from polyarch.reports import headline
from polyarch.reports.headline import Entry, Tile, compared, entries, predictor_named
from polyarch.reports.tables import Cell, Line, Table
from polyarch.reports.thinning import MOST_DRAWS
from polyarch.reports.words import SPACE, count, percent, several
from polyarch.results import GatedLayer, GuidedRecord, Results

BEST, FURTHER = "best draw", "best draw, trained further"
RANDOM = "random draws, one rate"
WHOLE, ALONE = "whole network, weights of the search", "whole network, trained alone"
MIXTURE = "mixture of "
"""Names of contenders; that of the mixture goes on with its number of draws."""


@dataclass(frozen=True)
class GuidedPart:
    """What the section of the report says.

    Args:
        kept: what the pictures show, summed up.
        is_marked: whether any gate is on an output.
        is_binned: whether some layers have too many channels to show each.
        trained: the name of the network whose course of training is shown.
        selection: a sentence where not all draws are shown.
    """

    done: str
    kept: str
    pictures: tuple[Markup, ...]
    is_marked: bool
    is_binned: bool
    layers: Table
    limits: bool
    exported: str
    mixture: str | None
    trained: str
    selection: str


def guided_part(results: Results, record: GuidedRecord) -> GuidedPart:
    """The section about the posterior and its draws."""
    best, most = _best(entries(results)), max(len(record.guided), len(record.random))
    trained = (one.name for one in results.comparison or [] if any(run.history for run in one.runs))
    return GuidedPart(
        done=" ".join(done(record)),
        kept=" ".join(_kept(record)),
        pictures=tuple(Markup(picture) for picture in channel_pictures(record)),
        is_marked=any(layer.side == "output" for layer in record.layers),
        is_binned=any(len(layer.kept) > MOST_CELLS for layer in record.layers),
        layers=_table(record),
        limits=record.max_macs is not None or record.max_params is not None,
        exported=BEST if best is None else best.name,
        mixture=next((one.name for one in results.predictors if one.name.startswith(MIXTURE)), None),
        trained=next(trained, ALONE).capitalize(),
        selection=f" Of each kind an even selection of at most {MOST_DRAWS} is shown." if most > MOST_DRAWS else "",
    )


def sentences(results: Results, record: GuidedRecord) -> list[str]:
    """The result in words; what one run cannot tell is said."""
    found = entries(results)
    best = _best(found)
    if best is None:
        return headline.sentences(results)
    comma = "," if "," in best.name else ""
    return [
        f"On {results.data['name']} the {best.name}{comma} reaches {percent(best.mean)} test accuracy with "
        f"{_left(record.best_draw.parameters, record.full_parameters)} of the parameters "
        f"({count(record.best_draw.parameters)} of {count(record.full_parameters)}) and "
        f"{_left(record.best_draw.macs, record.full_macs)} of the multiply-accumulates of the whole network.",
        " ".join([*_against_whole(best, found), *_against_random(record, found), _chance(_named(found, ALONE))]),
        *_further(results, best, found),
        *_mixture(best, found),
        *_calibration(results, best),
    ]


def tiles(results: Results, record: GuidedRecord) -> Iterator[Tile]:
    """The numbers of the sentences, to be seen at a glance."""
    found, draw = entries(results), record.best_draw
    best, alone, random = _best(found), _named(found, ALONE), _named(found, RANDOM)
    drawn = _named(found, BEST)
    if best is not None:
        yield Tile("test accuracy", percent(best.mean), f"of the {best.name}")
    if best is not None and alone is not None:
        yield Tile("points over whole", f"{100 * (best.mean - alone.mean):+.2f}", "network, trained alone")
    if drawn is not None and random is not None:
        yield Tile("points over random", f"{100 * (drawn.mean - random.mean):+.2f}", "draws, nothing trained again")
    parameters = f"{count(draw.parameters)} of {count(record.full_parameters)}"
    yield Tile("parameters left", _left(draw.parameters, record.full_parameters), parameters)
    macs = f"{count(round(draw.macs))} of {count(round(record.full_macs))}"
    yield Tile("operations left", _left(draw.macs, record.full_macs), f"{macs} multiply-accumulates")
    kept, channels = _channels(record)
    yield Tile("channels kept", _left(kept, channels), f"{count(kept)} of {count(channels)}")


def _against_whole(best: Entry, found: Sequence[Entry]) -> Iterator[str]:
    alone = _named(found, ALONE)
    if alone is not None:
        yield f"That is {compared(best, alone)} the {alone.name} ({alone.shown})."


def _against_random(record: GuidedRecord, found: Sequence[Entry]) -> Iterator[str]:
    """Both as they were drawn: further training would hide what the posterior is worth."""
    drawn, random, whole = (_named(found, name) for name in (BEST, RANDOM, WHOLE))
    if drawn is None:
        return
    number = several(len(record.guided), "draw")
    said = f"With the weights of the search, nothing trained again, the best of {number} reaches {drawn.shown}"
    if random is not None:
        number = several(len(record.random), "random draw")
        said += f", {compared(drawn, random)} the best of {number} at one rate ({random.shown})"
    if whole is not None:
        said += f", {'and ' if random is not None else ''}{compared(drawn, whole)} the whole network ({whole.shown})"
    yield f"{said}."


def _chance(alone: Entry | None) -> str:
    if alone is not None and alone.std is not None:
        return "The search ran once: differences no larger than the spread may be chance."
    return "Each was trained once: small differences may be chance."


def _further(results: Results, best: Entry, found: Sequence[Entry]) -> Iterator[str]:
    drawn, further = _named(found, BEST), _named(found, FURTHER)
    if drawn is None or further is None:
        return
    if best is further:
        yield f"Trained further, the best draw is {compared(further, drawn)} what it was as it was drawn."
    else:
        why = "; on validation data that was worse, so it is exported as it was drawn" if results.predictors else ""
        yield f"Trained further it reaches {further.shown}{why}."


def _mixture(best: Entry, found: Sequence[Entry]) -> Iterator[str]:
    for entry in found:
        if entry.name.startswith(MIXTURE):
            yield f"The {entry.name} reaches {entry.shown}, {compared(entry, best)} the exported network."


def _calibration(results: Results, best: Entry) -> Iterator[str]:
    names = [best.name, *(one.name for one in results.predictors if one.name.startswith(MIXTURE)), ALONE]
    judged = [one for one in (predictor_named(results, name) for name in names) if one is not None]
    if len(judged) > 1:
        errors = [f"{one.uncalibrated_calibration_error:.4f} for the {one.name}" for one in judged]
        yield f"Calibration errors before any temperature: {'; '.join(errors)}."


def _kept(record: GuidedRecord) -> Iterator[str]:
    used = [layer for layer in record.layers if is_used(layer, record)]
    kept, channels = _channels(record)
    empty = sum("1" not in layer.kept for layer in used)
    said = f"The best draw keeps {count(kept)} of {several(channels, 'channel')} ({_left(kept, channels)})"
    if len(used) == len(record.layers):  # what the posterior expects is over all layers
        who = "posterior, without the limits," if record.strength else "posterior"
        said += f"; the {who} expects {100 * record.keep_rate:.1f}{SPACE}%"
    yield f"{said}."
    if empty:
        yield f"Of {several(len(used), 'layer')} it drops {empty} wholly."
    if len(used) < len(record.layers):
        beyond = several(len(record.layers) - len(used), "layer")
        yield f"{beyond} beyond depth {record.best_depth} {'is' if beyond.startswith('1 ') else 'are'} not in it."


def _channels(record: GuidedRecord) -> tuple[int, int]:
    """Kept ones and all, of every layer with a gate."""
    used = [layer for layer in record.layers if is_used(layer, record)]
    return sum(layer.kept.count("1") for layer in used), sum(len(layer.kept) for layer in record.layers)


def _table(record: GuidedRecord) -> Table:
    has_groups = any(layer.group != layer.name for layer in record.layers)
    lines = [_line(place, layer, record, has_groups) for place, layer in enumerate(record.layers, start=1)]
    groups = ("group",) if has_groups else ()
    headings = ("#", "layer", *groups, "gate on", "channels", "kept", "share kept", "drop probability")
    return Table(headings, tuple(lines), keys=(1, 2) if has_groups else (1,))


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
        Cell(outcome(layer, used), layer.share if used else 0.0),
        Cell(probability(layer.drop), layer.drop),
    )
    return Line(cells, is_best=False)


def _best(found: Sequence[Entry]) -> Entry | None:
    return next((entry for entry in found if entry.is_best), None)


def _named(found: Sequence[Entry], name: str) -> Entry | None:
    return next((entry for entry in found if entry.name == name), None)


def _left(part: float, whole: float) -> str:
    return f"{100 * part / max(whole, 1):.1f}{SPACE}%"
