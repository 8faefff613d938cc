"""The part of a report about a front: every size, what it costs, and how to take it."""

from collections.abc import Iterator
from pathlib import Path

from polyarch.methods.front.plots import front_charts
from polyarch.methods.front.record import FrontRecord
from polyarch.reports.headline import answer_of, entries
from polyarch.reports.score_text import ScoreText
from polyarch.reports.section import Cell, Line, Section, SortableTable, Tile
from polyarch.reports.text import count, figures, several
from polyarch.results import Results, Role, SizeRecord


def section(results: Results) -> Section:
    """The front; before the sizes are measured the page stays as it is."""
    record, text = results.found(FrontRecord), ScoreText.of(results)
    if record is None:
        return Section()
    return Section(
        Path(__file__).with_name("report.html"),
        sentences=list(sentences(results, record)),
        tiles=list(tiles(record, text)),
        charts=dict(front_charts(record, text)),
        values={"record": record, "table": size_table(record, text)},
    )


def sentences(results: Results, record: FrontRecord) -> Iterator[str]:
    """The delivered size first, then the range of all."""
    text = ScoreText.of(results)
    best, smallest, largest = record.sizes[record.best], record.sizes[0], record.sizes[-1]
    yield (
        f"On {results.data['name']}, the best size reaches {text.value(best.score)} test {text.title} with "
        f"{count(best.parameters)} parameters."
    )
    yield (
        f"The same training holds {several(len(record.sizes), 'size')}, from {count(smallest.parameters)} parameters "
        f"({text.value(smallest.score)}) to {count(largest.parameters)} ({text.value(largest.score)}), with the "
        "weights they inherit."
    )
    found = entries(results)
    answer = answer_of(found)
    for entry in found:
        if answer is not None and entry.role is Role.BASELINE:
            yield f"The best size is {answer.against(entry)} {entry.name} ({entry.shown})."


def tiles(record: FrontRecord, text: ScoreText) -> Iterator[Tile]:
    """The numbers of the sentences, to be seen at a glance."""
    best, smallest = record.sizes[record.best], record.sizes[0]
    yield Tile(f"test {text.title}", text.value(best.score), f"size {record.best}, the best on validation data")
    yield Tile("parameters", count(best.parameters), "of the best size")
    yield Tile("smallest", text.value(smallest.score), f"{count(smallest.parameters)} parameters")
    yield Tile("sizes", count(len(record.sizes)), f"{sum(one.is_on_front for one in record.sizes)} on the front")


def size_table(record: FrontRecord, text: ScoreText) -> SortableTable:
    """A row per size."""
    headings = (
        "size", "architecture", "parameters", "MACs", "ms", f"validation {text.title}", f"test {text.title}",
        "test NLL", "front",
    )  # fmt: skip
    lines = [Line(_cells(index, one, text), is_best=index == record.best) for index, one in enumerate(record.sizes)]
    return SortableTable(headings, tuple(lines))


def _cells(index: int, one: SizeRecord, text: ScoreText) -> tuple[Cell, ...]:
    return (
        Cell(str(index), index),
        Cell("|".join(one.architecture.values())),
        Cell(count(one.parameters), one.parameters),
        Cell(count(round(one.macs)), one.macs),
        Cell(figures(1000 * one.latency), one.latency),
        Cell(text.value(one.valid_score), one.valid_score),
        Cell(text.score_of(one), one.score),
        Cell(text.loss_of(one), one.loss),
        Cell("yes" if one.is_on_front else "–", float(one.is_on_front)),
    )
