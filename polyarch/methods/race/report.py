"""The part of a report about a race: what was gained and against what, the course of the race, and everyone in it."""

from collections.abc import Iterator
from pathlib import Path

from polyarch.methods.race.delivery import PLAIN
from polyarch.methods.race.plots import race_charts
from polyarch.methods.race.record import CandidateRecord, RaceRecord
from polyarch.reports.headline import Entry, entries, predictor_in, with_role
from polyarch.reports.score_text import ScoreText
from polyarch.reports.section import Cell, Line, Section, SortableTable, Tile
from polyarch.reports.text import count, percent, several
from polyarch.results import Results, Role


def section(results: Results) -> Section:
    """The race; before it is over the page stays as it is."""
    record = results.found(RaceRecord)
    if record is None:
        return Section()
    return Section(
        Path(__file__).with_name("report.html"),
        sentences=sentences(results, record),
        tiles=list(tiles(results, record)),
        charts=dict(race_charts(record)),
        values={
            "record": record,
            "table": candidate_table(record, ScoreText.of(results)),
            "is_table": record.is_table,
            "folds": max(one.folds for one in record.candidates),
        },
    )


def sentences(results: Results, record: RaceRecord) -> list[str]:
    """What was gained and against what, first; what is not comparable is not compared."""
    found = entries(results)
    best = with_role(found, Role.BEST)
    assert best is not None
    answer = with_role(found, Role.MIXTURE) or best
    winner = record.candidates[record.best]
    who = f"the {answer.name}" if answer is best else f"the {answer.name} networks"
    said = f"On {results.data['name']}, {who} reaches {answer.text.value(answer.mean)} test {answer.text.title}"
    size = f"with {count(winner.parameters)} parameters"
    plain = next((entry for entry in found if entry.name == PLAIN and entry is not best), None)
    against = _at_the_same_time(record, answer) if plain is None else f", {answer.against(plain)} the {plain.name} "
    against += "" if plain is None else f"({plain.shown})"
    if answer is best:
        first = [f"{said} {size}{against}."]
    else:
        first = [f"{said}{against}.", f"The best network alone reaches {best.text.value(best.mean)} {size}."]
    return [*first, *_plain_result(record), *_evidence(record, best, found), *_tables(found, answer)]


def _at_the_same_time(record: RaceRecord, answer: Entry) -> str:
    """The winner and the plain network after the same seconds, where the plain one was eliminated on the way."""
    plain, winner = record.reference, record.candidates[record.best]
    if plain is None or plain is winner:
        return ""
    last, text = plain.legs[-1], answer.text
    same = winner.legs[len(plain.legs) - 1]
    name = "the plain network" if record.is_table else "a plain residual network"
    return (
        f"; after the same {several(round(last.seconds), 'second')} of training, the winner had a validation "
        f"{text.title} of {text.value(same.valid_score)} and {name} {text.value(last.valid_score)}"
    )


def _plain_result(record: RaceRecord) -> Iterator[str]:
    """How the race went for the plain network, where this is not said yet."""
    plain = record.reference
    if plain is None:
        yield "The race was finished before the plain network had begun to train."
    elif plain is record.candidates[record.best]:
        yield "The plain network won the race: no other was better on validation data."
    elif plain.is_finalist:
        yield "The plain network was trained as long and lost on validation data."


def _evidence(record: RaceRecord, best: Entry, found: list[Entry]) -> Iterator[str]:
    random = with_role(found, Role.RANDOM)
    if random is not None:
        yield (
            f"Over {several(len(best.scores), 'seed')} the best network reaches {best.shown}; "
            f"{several(len(random.scores), 'random network')} of the same space, trained as long, {random.shown}."
        )
    if record.speed_agreement is not None:
        yield (
            "Training speed after the first rung and the final validation loss agree with a Kendall correlation of "
            f"{record.speed_agreement:.2f}."
        )


def _tables(found: list[Entry], answer: Entry) -> Iterator[str]:
    for entry in found:
        if entry.role is Role.BASELINE and entry.name != PLAIN:
            yield f"The answer is {answer.against(entry)} {entry.name} ({entry.shown})."


def tiles(results: Results, record: RaceRecord) -> Iterator[Tile]:
    """The numbers of the sentences, to be seen at a glance."""
    text = ScoreText.of(results)
    winner = record.candidates[record.best]
    for folder, name in (("ensemble", "ensemble"), ("artifact", "best network")):
        one = predictor_in(results, folder)
        if one is not None:
            note = several(len(one.members), "network") if folder == "ensemble" else "alone"
            yield Tile(f"{name}, test {text.title}", text.value(one.score), note)
    yield Tile("parameters", count(winner.parameters), "of the best network")
    yield Tile(
        "candidates", count(len(record.candidates)), f"{sum(one.is_finalist for one in record.candidates)} to the end"
    )


def candidate_table(record: RaceRecord, text: ScoreText) -> SortableTable:
    """A row per candidate, finalists first."""
    headings = (
        "#", "architecture", "trained with", "parameters", "MACs", "seconds", "steps", "training loss",
        "validation loss", f"validation {text.title}", "share",
    )  # fmt: skip
    lines = [
        Line(_cells(place, one, text), is_best=place - 1 == record.best)
        for place, one in enumerate(record.candidates, start=1)
    ]
    return SortableTable(headings, tuple(lines), keys=(1, 2))


def _cells(place: int, one: CandidateRecord, text: ScoreText) -> tuple[Cell, ...]:
    last = one.legs[-1]
    name = one.name + (" (plain)" if one.is_reference else "")
    return (
        Cell(str(place), place),
        Cell(name),
        Cell(one.recipe or one.augmentation),
        Cell(count(one.parameters), one.parameters),
        Cell(count(round(one.macs)), one.macs),
        Cell(f"{last.seconds:.0f}", last.seconds),
        Cell(count(last.steps), last.steps),
        Cell(f"{last.training_loss:.4f}", last.training_loss),
        Cell(f"{last.valid_loss:.4f}", last.valid_loss),
        Cell(text.value(last.valid_score), last.valid_score),
        Cell(percent(one.share, 0) if one.share else "–", one.share),
    )
