"""The first lines of the report of a search for a depth: how deep the network needs to be, and what pruning costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from polyarch.methods.depth.words import (
    MIXTURE,
    PRUNED_MIXTURE,
    at_depth,
    deepest,
    is_learned,
    likely,
    named,
    relative_time,
    rule_name,
)
from polyarch.reports.headline import Tile
from polyarch.reports.words import SPACE, count, percent, points, several
from polyarch.results import DepthRecord, ExitPoint, Results


@dataclass(frozen=True)
class Way:
    """A way to predict with the chosen depth, and what test data say of it."""

    words: str
    accuracy: float
    loss: float


def sentences(results: Results, record: DepthRecord) -> list[str]:
    """The answer, what it costs, and how sure it is; what pruning loses is called a loss."""
    if not is_learned(record):
        return list(_baseline(results, record))
    first, *others = _ways(results, record)
    return [_preferred(results, record), _pruned(results, record, first), *_details(record, first, others)]


def tiles(results: Results, record: DepthRecord) -> Iterator[Tile]:
    """The numbers of the sentences, to be seen at a glance."""
    first, alone, full = _ways(results, record)[0], at_depth(record, record.chosen), at_depth(record, deepest(record))
    yield Tile("depth", f"{record.chosen} of {full.depth}", f"rule {rule_name(record.rule)}")
    if is_learned(record):
        yield Tile("likely depths", _range(*likely(record)), "90 % of the posterior")
    yield Tile("test accuracy", percent(first.accuracy), first.words)
    yield Tile("parameters", count(alone.parameters), f"of {count(full.parameters)} at depth {full.depth}")
    ratio = relative_time(results)
    if ratio is not None:
        yield Tile("forward pass", f"{100 * ratio:.0f}{SPACE}%", "of the time of all blocks")
    exit_point = chosen_exit(record)
    if exit_point is not None:
        yield Tile("early exit", f"{exit_point.mean_depth:.1f} blocks", f"on average, {percent(exit_point.accuracy)}")


def chosen_exit(record: DepthRecord) -> ExitPoint | None:
    """Early exit at the confidence that was chosen on validation data."""
    return next((one for one in record.exits if one.confidence == record.exit_confidence), None)


def _preferred(results: Results, record: DepthRecord) -> str:
    others = [f"{rule_name(rule)}: {depth}" for rule, depth in record.choices.items() if rule != record.rule]
    rules = "; ".join([f"rule {rule_name(record.rule)}", *([", ".join(others)] if others else [])])
    verb = "prefers" if record.rule == "argmax" else "leads to"
    said = f"On {results.data['name']} the posterior {verb} depth {record.chosen} of {deepest(record)} ({rules})."
    return f"{said} That is the deepest on offer: more depth may help." if record.chosen == deepest(record) else said


def _ways(results: Results, record: DepthRecord) -> list[Way]:
    """The chosen depth alone and, where it was measured, the mixture up to it; the one in the artifact first."""
    alone, mixture = at_depth(record, record.chosen), named(record, PRUNED_MIXTURE)
    ways = [Way(f"at depth {record.chosen} alone", alone.accuracy, alone.loss)]
    if mixture is not None:
        ways.append(Way(f"as a mixture of the depths up to {record.chosen}", mixture.accuracy, mixture.loss))
        if results.comparison and results.comparison[0].name == PRUNED_MIXTURE:
            ways.reverse()
    return ways


def _pruned(results: Results, record: DepthRecord, first: Way) -> str:
    mixture, ratio = named(record, MIXTURE), relative_time(results)
    kept = f"keeps {record.chosen} of {several(deepest(record), 'block')}"
    said = f"The pruned network {kept} and reaches {percent(first.accuracy)} test accuracy {first.words}"
    if mixture is not None:
        said += f", {_compared(first.accuracy - mixture.accuracy)} the mixture over all depths"
        said += f" ({percent(mixture.accuracy)})" if mixture.accuracy != first.accuracy else ""
    if ratio is None:
        return f"{said}."
    share = f"{100 * ratio:.0f}{SPACE}%"
    return f"{said}; a forward pass {f'takes {share} of the time' if ratio < 1 else f'is not faster ({share})'}."


def _details(record: DepthRecord, first: Way, others: Sequence[Way]) -> Iterator[str]:
    mixture = named(record, MIXTURE)
    if mixture is not None:
        likelihood = _likelihood(first.loss, mixture.loss)
        yield f"On test data its mean log p of the true class is {likelihood} the mixture over all depths."
        for way in others:
            change = _compared(way.accuracy - mixture.accuracy)
            yield (
                f"{way.words.capitalize()} it reaches {percent(way.accuracy)} test accuracy, {change} the mixture over "
                f"all depths, and a mean log p of {_likelihood(way.loss, mixture.loss)} that mixture."
            )
    shallow, deep = likely(record)
    yield f"90{SPACE}% of the posterior lies on {'depth' if shallow == deep else 'depths'} {_range(shallow, deep)}."
    exit_point = chosen_exit(record)
    if exit_point is not None:
        yield (
            f"With early exit at a confidence of {percent(exit_point.confidence)}, chosen on validation data, test "
            f"examples use {exit_point.mean_depth:.1f} blocks on average and {percent(exit_point.accuracy)} are right."
        )


def _baseline(results: Results, record: DepthRecord) -> Iterator[str]:
    chosen, full = at_depth(record, record.chosen), at_depth(record, deepest(record))
    trained = f"{several(len(record.depths), 'network')} of depths up to {full.depth} were each trained alone"
    yield f"On {results.data['name']} {trained}; validation data choose depth {chosen.depth}."
    reached = f"It reaches {percent(chosen.accuracy)} test accuracy with {count(chosen.parameters)} parameters"
    if chosen.depth == full.depth:
        yield f"{reached}. That is the deepest on offer: more depth may help."
        return
    yield (
        f"{reached}, {_compared(chosen.accuracy - full.accuracy)} the deepest network ({percent(full.accuracy)} with "
        f"{count(full.parameters)} parameters)."
    )
    likelihood = _likelihood(chosen.loss, full.loss)
    yield f"On test data its mean log p of the true class is {likelihood} the deepest network."


def _compared(difference: float) -> str:
    if difference == 0:
        return "the same as"
    return f"{points(abs(difference))} {'above' if difference > 0 else 'below'}"


def _likelihood(loss: float, other: float) -> str:
    """Differences below the three digits that are shown do not count."""
    shown, compared = f"{-loss:.3f}", f"{-other:.3f}"
    if shown == compared:
        return f"{shown}, the same as of"
    return f"{shown}, {'better' if loss < other else 'worse'} than the {compared} of"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"
