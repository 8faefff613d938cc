"""The first lines of the report: how good the best architecture is, and whether the search was worth it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from polyarch.reports.searched import best_parameters
from polyarch.reports.words import count, in_words, percent, points, several, with_spread
from polyarch.results import Contender, PredictorRecord, Results


@dataclass(frozen=True)
class Entry:
    """One side of the comparison; ``std`` is None where there is one run only, so nothing is known of the spread."""

    name: str
    mean: float
    std: float | None
    accuracies: tuple[float, ...]
    is_best: bool = False

    @property
    def shown(self) -> str:
        """Mean and spread in words."""
        return with_spread(self.mean, self.std)


@dataclass(frozen=True)
class Tile:
    """A number large enough to be read first."""

    words: str
    value: str
    note: str


def entries(results: Results) -> list[Entry]:
    """The contenders, of which one is the best, and the ensembles that are not among them."""
    best = _exported(results)
    found = [_entry(contender, index == best) for index, contender in enumerate(results.comparison or [])]
    names = " ".join(entry.name for entry in found)
    for predictor in results.predictors:
        is_known = predictor.name in names or ("ensemble" in names and len(predictor.members) > 1)
        if not is_known and (len(predictor.members) > 1 or not results.comparison):
            found.append(Entry(predictor.name, predictor.accuracy, None, (predictor.accuracy,), is_best=not found))
    return found


def compared(first: Entry, other: Entry) -> str:
    """By the digits that are shown: some accuracies were taken in single precision."""
    difference = first.mean - other.mean
    if points(abs(difference)) == points(0.0):
        return "the same as"
    return f"{points(abs(difference))} {'above' if difference > 0 else 'below'}"


def predictor_named(results: Results, name: str) -> PredictorRecord | None:
    """What was measured of a predictor, where it was."""
    return next((one for one in results.predictors if one.name == name), None)


def gap(results: Results) -> tuple[float, float | None] | None:
    """How far the best is above random architectures, and the spread: the larger of the two standard deviations.

    None without both sides; the spread is None where every side has one run only.
    """
    found = entries(results)
    random = _random(found)
    if random is None:
        return None
    spreads = [entry.std for entry in (found[0], random) if entry.std is not None]
    return found[0].mean - random.mean, max(spreads, default=None)


def sentences(results: Results) -> list[str]:
    """The result in words; a gain that is not larger than the spread is not called a gain."""
    found = entries(results)
    if not found:
        return ["This run has not reached the comparison yet: there are no test results."]
    best, parameters = found[0], best_parameters(results)
    size = f" with {count(parameters)} parameters" if parameters is not None else ""
    runs = f" (mean of {several(len(best.accuracies), 'seed')})" if len(best.accuracies) > 1 else ""
    said = [f"On {results.data['name']} the best architecture reaches {best.shown} test accuracy{runs}{size}."]
    said += _against_random(results, found)
    said += _others(results, found)
    if results.search is not None and results.search.limits:
        said.append(f"Limits of the search: {in_words(results.search.limits)}.")
    return said


def tiles(results: Results) -> Iterator[Tile]:
    """The numbers of the sentences, to be seen at a glance."""
    found = entries(results)
    if found:
        runs = len(found[0].accuracies)
        spread = f"± {100 * found[0].std:.2f} over {several(runs, 'seed')}" if found[0].std is not None else "one run"
        yield Tile("test accuracy", percent(found[0].mean), spread)
    measured = gap(results)
    if measured is not None:
        difference, spread_size = measured
        judged = "spread unknown" if spread_size is None else _judged(difference, spread_size)
        yield Tile("points over random", f"{100 * difference:+.2f}", judged)
    for predictor in _ensembles(results)[:1]:
        yield Tile("ensemble", percent(predictor.accuracy), several(len(predictor.members), "network"))
    parameters = best_parameters(results)
    if parameters is not None:
        limit = results.search.limits.get("params") if results.search is not None else None
        yield Tile("parameters", count(parameters), f"at most {count(limit)}" if limit else "of the best architecture")
    if results.search is not None:
        size = results.space.get("size")
        yield Tile("searched", count(len(results.search.evaluated)), f"of {count(size)}" if size else "architectures")


def _judged(difference: float, spread: float) -> str:
    return "more than the spread" if abs(difference) > spread else "within the spread"


def _against_random(results: Results, found: list[Entry]) -> Iterator[str]:
    random, measured = _random(found), gap(results)
    if random is None or measured is None:
        return
    difference, spread = measured
    number = len(random.accuracies)
    who = "the mean of " + several(number, "random architecture") if number > 1 else "a random architecture"
    direction = "above" if difference > 0 else "below"
    against = f"{points(abs(difference))} {direction} {who} trained the same way ({random.shown})"
    if spread is None:
        yield f"That is {against}. Each was trained once, so nothing is known of the spread: this may be chance."
    elif difference > spread:
        yield f"That is {against}, which is more than the spread of {points(spread)}."
    elif difference > 0:
        yield (
            f"That is only {against}, which is within the spread of {points(spread)}: "
            "on these data the search did not find an architecture that is clearly better than a random one."
        )
    else:
        where = "within" if -difference <= spread else "more than"
        yield (
            f"That is {against}, which is {where} the spread of {points(spread)}: "
            "on these data the search did not find an architecture that is better than a random one."
        )


def _others(results: Results, found: list[Entry]) -> Iterator[str]:
    for entry in found[1:]:
        if "inherited" in entry.name:
            yield f"With the weights that it inherits from the supernet, not retrained, it reaches {entry.shown}."
    alone = next((one.accuracy for one in results.predictors if len(one.members) == 1), found[0].mean)
    for predictor in _ensembles(results):
        difference = predictor.accuracy - alone
        direction = "above" if difference > 0 else "below"
        change = f"{points(abs(difference))} {direction}" if difference else "the same as"
        yield f"The {predictor.name} reaches {percent(predictor.accuracy)}, {change} the best network alone."


def _exported(results: Results) -> int:
    """The place of the best: the first, but for draws that may be exported as they are or trained further."""
    names = [contender.name for contender in results.comparison or []]
    first = results.predictors[0].name if results.predictors else None
    return names.index(first) if results.guided is not None and first in names else 0


def _entry(contender: Contender, is_best: bool) -> Entry:
    accuracies = tuple(run.accuracy for run in contender.runs)
    std = contender.std if len(accuracies) > 1 else None
    return Entry(contender.name, contender.mean, std, accuracies, is_best)


def _random(found: list[Entry]) -> Entry | None:
    return next((entry for entry in found[1:] if entry.name.startswith("random")), None)


def _ensembles(results: Results) -> list[PredictorRecord]:
    return [predictor for predictor in results.predictors if len(predictor.members) > 1]
