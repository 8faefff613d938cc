"""The first lines about a posterior-guided search: how good and how small the best draw is."""

from collections.abc import Iterator, Sequence

from polyarch.methods.posterior_guided.record import DRAWN, FURTHER, GuidedRecord
from polyarch.reports.headline import Entry, answer_of, entries, with_role
from polyarch.reports.section import Tile
from polyarch.reports.text import count, percent, several, signed, the
from polyarch.results import Results, Role


def sentences(results: Results, record: GuidedRecord) -> list[str] | None:
    """The result in words; what a single run cannot tell is said. None without test results."""
    found = entries(results)
    best = answer_of(found)
    if best is None:
        return None
    draw = record.best_draw
    return [
        f"On {results.data['name']}, {the(best.name)} reaches {percent(best.mean)} test accuracy with "
        f"{share_of(draw.parameters, record.full_parameters)} of the parameters "
        f"({count(draw.parameters)} of {count(record.full_parameters)}) and "
        f"{share_of(draw.macs, record.full_macs)} of the multiply-accumulates of the whole network.",
        " ".join(_compared(record, best, found)),
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
        yield Tile("test accuracy", percent(best.mean), f"of the {best.name}")
    if best is not None and alone is not None:
        yield Tile("vs. whole network", signed(best.mean - alone.mean), "points; trained alone")
    if drawn is not None and random is not None:
        yield Tile("vs. random draws", signed(drawn.mean - random.mean), "points; no further training")
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
    if alone is not None and alone.std is not None:
        yield "The search ran once: differences no larger than the spread may be chance."
    else:
        yield "Each was trained once: small differences may be chance."


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
    if len(results.predictors) > 1:
        errors = [f"{one.uncalibrated_calibration_error:.4f} for the {one.name}" for one in results.predictors]
        yield f"Calibration errors before temperature scaling: {'; '.join(errors)}."


def _named(found: Sequence[Entry], name: str) -> Entry | None:
    return next((entry for entry in found if entry.name == name), None)
