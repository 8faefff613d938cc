"""The one-shot part of a report: ranking, search, and how far to trust them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from polyarch.methods.one_shot.plots import counted_parameters, option_charts, ordered, score_against_size
from polyarch.methods.one_shot.ranking import top_text
from polyarch.methods.one_shot.record import (
    EliminationRecord,
    IntervalRecord,
    OneShotRecord,
    RankingRecord,
    ScoredArchitecture,
    SearchRecord,
    TrustRecord,
)
from polyarch.reports import headline
from polyarch.reports.page import picture_of
from polyarch.reports.section import Cell, Line, Section, SortableTable, Tile
from polyarch.reports.text import count, estimator_name, figures, limits_text, listed, percent, several
from polyarch.results import Results

TOP = 20


def section(results: Results) -> Section:
    """Everything a one-shot run adds, as far as it has come."""
    record = results.found(OneShotRecord) or OneShotRecord()
    trust = record.ranking.trust if record.ranking else None
    tops = record.ranking.top if record.ranking else {}
    values: dict[str, Any] = {
        "record": record,
        "rule": elimination_rule(record.elimination) if record.elimination else "",
        "trust_sentences": list(trust_sentences(trust)) if trust else [],
        "trust_rows": list(trust_rows(trust)) if trust else [],
        "tops": {name: top_text(one) for name, one in tops.items()},
        "top_count": next((one.k for one in tops.values()), None),
        "difference_rows": list(difference_rows(record.ranking)) if record.ranking else [],
        "top": None,
    }
    template = Path(__file__).with_name("report.html")
    search = record.search
    if search is None:
        return Section(template, values=values)
    best = headline.best_architecture(results) or (search.best[0].architecture if search.best else None)
    exported = headline.exported_parameters(results)
    parameters = counted_parameters(search, best) if exported is None else exported
    charts = {"sizes": score_against_size(search, best)} if search.evaluated else {}
    if search.evaluated and not results.training.q:
        charts |= option_charts(search, results.space.get("choices") or {})
    return Section(
        template,
        sentences=[*headline.sentences(results), *_limits(search), *_end(search)],
        tiles=list(_tiles(results, search, parameters)),
        drawing=picture_of(results, best),
        charts=charts,
        values={**values, "top": top(search, best), "parameters": parameters},
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


def _end(search: SearchRecord) -> Iterator[str]:
    if search.exhausted:
        yield f"The search ended early, after {several(len(search.evaluated), 'network')}: it found no other one."


def _tiles(results: Results, search: SearchRecord, parameters: int | None) -> Iterator[Tile]:
    yield from headline.score_tiles(results)
    if parameters is not None:
        limit = search.limits.get("params")
        yield Tile("parameters", count(parameters), f"at most {count(limit)}" if limit else "of the best architecture")
    size, networks = results.space.get("size"), results.space.get("networks")
    whole = f"of {count(networks)} networks" if networks else f"of {count(size)}" if size else "architectures"
    yield Tile("searched", count(len(search.evaluated)), whole)


def _repeats_parameters(estimator: str, items: Sequence[ScoredArchitecture]) -> bool:
    return estimator == "params" and all(item.score(estimator) == item.parameters for item in items)


def _heading(item: ScoredArchitecture, estimator: str) -> str:
    policy = next(score.policy for score in item.scores if score.estimator == estimator)
    return f"{estimator_name(estimator)} ({policy})" if policy else estimator_name(estimator)


AGREEMENTS = ((0.8, "closely"), (0.5, "roughly"), (0.2, "only slightly"), (-math.inf, "hardly at all"))
"""The least Spearman correlation for a word, and the word."""

OF_ESTIMATORS = {
    "closely": "they back each other on which architectures are better; the order of close neighbours remains open",
    "roughly": "the top is likely better than the bottom, but which one is best remains open; retrain several",
    "only slightly": "treat the ranking as a hint; retrain several of the top and compare them",
    "hardly at all": "at least one of them is misleading; trust only retrained networks",
}
"""What their agreement means for the ranking."""

OF_SEEDS = {
    "closely": "another training run would give nearly the same ranking",
    "roughly": "another training run would give a similar ranking, perhaps with another architecture on top",
    "only slightly": "another training run would give a rather different ranking",
    "hardly at all": "the ranking depends on the luck of a single training run",
}
"""What the agreement of supernets means for the ranking."""

PLACES = (
    (0.1, "it stays near the top whichever estimator judges"),
    (0.5, "it is better than average, but not certainly the best"),
    (1.0, "that it is better than average is not confirmed"),
)
"""The largest upper end of the interval of its place for a verdict, and the verdict."""


def difference_rows(ranking: RankingRecord) -> Iterator[tuple[str, ...]]:
    """The two estimators, and value and interval of their differences."""
    for one in ranking.differences:
        top = () if one.top is None else _shown(one.top, "{:+.4f}".format)
        names = f"{estimator_name(one.first)} − {estimator_name(one.second)}"
        yield names, *_shown(one.spearman, "{:+.2f}".format), *top


def trust_sentences(trust: TrustRecord) -> Iterator[str]:
    """What the agreements mean."""
    yield _agreement("The two estimators", trust.estimator_agreement, OF_ESTIMATORS)
    if trust.seed_agreement is not None:
        yield _agreement("Supernets trained with different seeds", trust.seed_agreement, OF_SEEDS)
    place = _known(trust.top_rank_interval)
    if place is not None:
        value, low, high = (percent(share, 0) for share in place)
        verdict = next(verdict for most, verdict in PLACES if place[2] <= most)
        yield (
            f"Other estimators put {value} of the other architectures ahead of the one that "
            f"{estimator_name(trust.estimators[0])} ranks first ({low} to {high}): {verdict}."
        )


def trust_rows(trust: TrustRecord) -> Iterator[tuple[str, str, str]]:
    """Name, value and interval of every agreement."""
    first, second = map(estimator_name, trust.estimators)
    yield f"agreement of {first} and {second}", *_shown(trust.estimator_agreement, "{:.2f}".format)
    if trust.seed_agreement is not None:
        yield "agreement of supernets with different seeds", *_shown(trust.seed_agreement, "{:.2f}".format)
    yield (
        f"share of the others ahead of the first by {first}",
        *_shown(trust.top_rank_interval, partial(percent, digits=0)),
    )


def _agreement(who: str, agreement: IntervalRecord, meanings: Mapping[str, str]) -> str:
    known = _known(agreement)
    if known is None:
        return f"{who} cannot be compared: one side gives all architectures the same score."
    value, low, high = known
    degree = next(degree for least, degree in AGREEMENTS if value >= least)
    chance = " This may be chance: the interval includes 0." if low <= 0 <= high else ""
    return f"{who} agree {degree} ({value:.2f}, {low:.2f} to {high:.2f}): {meanings[degree]}.{chance}"


def _shown(interval: IntervalRecord, shown: Callable[[float], str]) -> tuple[str, str]:
    known = _known(interval)
    if known is None:
        return "–", "–"
    value, low, high = map(shown, known)
    return value, f"{low} to {high}"


def _known(interval: IntervalRecord) -> tuple[float, float, float] | None:
    if interval.value is None or interval.low is None or interval.high is None:
        return None
    return interval.value, interval.low, interval.high
