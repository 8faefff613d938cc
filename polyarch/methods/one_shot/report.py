"""The one-shot part of a report: ranking, search, and how far to trust them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from polyarch.methods.one_shot.plots import counted_parameters, option_charts, ordered, score_against_size
from polyarch.methods.one_shot.ranking_trust import trust_rows, trust_sentences
from polyarch.methods.one_shot.record import EliminationRecord, OneShotRecord, ScoredArchitecture, SearchRecord
from polyarch.reports import headline
from polyarch.reports.page import picture_of
from polyarch.reports.section import Cell, Line, Section, SortableTable, Tile
from polyarch.reports.text import count, estimator_name, figures, limits_text, listed
from polyarch.results import Results

TOP = 20


def section(results: Results) -> Section:
    """Everything a one-shot run adds, as far as it has come."""
    record = results.found(OneShotRecord) or OneShotRecord()
    trust = record.ranking.trust if record.ranking else None
    values: dict[str, Any] = {
        "record": record,
        "rule": elimination_rule(record.elimination) if record.elimination else "",
        "trust_sentences": list(trust_sentences(trust)) if trust else [],
        "trust_rows": list(trust_rows(trust)) if trust else [],
        "top": None,
        "counted": None,
    }
    template = Path(__file__).with_name("report.html")
    search = record.search
    if search is None:
        return Section(template, values=values)
    best = headline.best_architecture(results) or (search.best[0].architecture if search.best else None)
    counted = counted_parameters(search, best)
    exported = headline.exported_parameters(results)
    parameters = counted if exported is None else exported
    charts = {"sizes": score_against_size(search, best)} if search.evaluated else {}
    if search.evaluated and not results.training.q:
        charts |= option_charts(search, results.space.get("choices") or {})
    return Section(
        template,
        sentences=[*headline.sentences(results), *_limits(search)],
        tiles=list(_tiles(results, search, parameters)),
        drawing=picture_of(results, best),
        charts=charts,
        values={**values, "top": top(search, best), "counted": counted, "parameters": parameters},
    )


def elimination_rule(found: EliminationRecord) -> str:
    """When the worse half stopped."""
    *_, end = found.rungs  # of the short run, after which none has to stop
    stops = [str(rung) for rung in found.rungs if rung < end]
    return f"after {listed(stops)} steps, the worse half stopped" if stops else "none had to stop early"


def top(search: SearchRecord, best: dict[str, str] | None) -> SortableTable | None:
    """The best of the search by its first objective."""
    items = ordered(search)[:TOP]
    if not items:
        return None
    names = [score.estimator for score in items[0].scores if not _repeats_parameters(score.estimator, items)]
    truth = ("truth",) if any(item.truth is not None for item in items) else ()
    lines = []
    for position, item in enumerate(items, start=1):
        cells = [
            Cell(str(position), position),
            Cell(item.key),
            Cell(count(item.parameters), item.parameters),
            *(Cell(figures(item.score(name)), item.score(name)) for name in names),
        ]
        if truth:
            cells.append(Cell("–") if item.truth is None else Cell(figures(item.truth), item.truth))
        lines.append(Line(tuple(cells), item.architecture == best))
    headings = ("#", "architecture", "parameters", *(_heading(items[0], name) for name in names), *truth)
    return SortableTable(headings, tuple(lines))


def _limits(search: SearchRecord) -> Iterator[str]:
    if search.limits:
        yield f"Limits of the search: {limits_text(search.limits)}."


def _tiles(results: Results, search: SearchRecord, parameters: int | None) -> Iterator[Tile]:
    yield from headline.accuracy_tiles(results)
    if parameters is not None:
        limit = search.limits.get("params")
        yield Tile("parameters", count(parameters), f"at most {count(limit)}" if limit else "of the best architecture")
    size = results.space.get("size")
    yield Tile("searched", count(len(search.evaluated)), f"of {count(size)}" if size else "architectures")


def _repeats_parameters(estimator: str, items: Sequence[ScoredArchitecture]) -> bool:
    return estimator == "params" and all(item.score(estimator) == item.parameters for item in items)


def _heading(item: ScoredArchitecture, estimator: str) -> str:
    policy = next(score.policy for score in item.scores if score.estimator == estimator)
    return f"{estimator_name(estimator)} ({policy})" if policy else estimator_name(estimator)
