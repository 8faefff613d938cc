"""What experiments cost: processor time of the items that ran, and an estimate for those that did not."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence

from polyarch_experiments.experiment import Experiment
from polyarch_experiments.results import VERSION, ExperimentResults

MINUTES: dict[str, dict[str, float]] = {
    "strategy_ranking": {"fair": 42, "single_path": 60},
    "cell_search": {"darts": 19, "drnas": 6, "gdas": 3},
}
"""Minutes of one core for one item of the preset ``long``, by experiment and item without its seed; what has not been
timed is not here.

`strategy_ranking`: processor time of a whole item by fair paths, and of 1,381 training steps by single paths with the
scores of that item. `cell_search`: the stored searches of the preset ``cpu``, which differ in their length alone, by
the clock, the faster of two seeds, which other work disturbed less. ``benchmarks/experiment_prices.py`` times pieces of
others.
"""


def kind_of(item: str) -> str:
    """The name of an item without its seed: items that differ in it alone cost the same."""
    return re.sub(r",? seed \d+$", "", item)


def minutes_of(items: Sequence[str], seconds: Mapping[str, float], pieces: Mapping[str, float]) -> dict[str, float]:
    """Processor minutes of items that did not run, where they are known: as others of their kind, or by timed pieces.

    Args:
        seconds: of items that ran.
        pieces: minutes of an item by kind.
    """
    found = {}
    for item in items:
        same = [value / 60 for other, value in seconds.items() if kind_of(other) == kind_of(item)]
        if same:
            found[item] = statistics.fmean(same)
        elif kind_of(item) in pieces:
            found[item] = pieces[kind_of(item)]
    return found


def prices(experiment: Experiment, results: ExperimentResults) -> Iterator[str]:
    """Sentences on what the results cost, what the rest of them would, and what the preset ``long`` would."""
    seconds = results.processor_seconds
    earlier = results.version < VERSION  # the experiment may have had other items then
    rest = [] if earlier else [item for item in experiment.items(results.settings) if item not in results.runs]
    if seconds:
        yield f"{_count(len(seconds))} took {_time(sum(seconds.values()) / 60)} of one core."
    pieces = MINUTES.get(experiment.name, {}) if results.preset == "long" else {}
    if rest:
        ran, known = len(results.runs), minutes_of(rest, seconds, pieces)
        like = [value / 60 for item, value in seconds.items() if kind_of(item) != item] or list(pieces.values())
        yield f"{ran} of {ran + len(rest)} items have run; {_rest(rest, known, like)}"
    elif results.preset != "long" and experiment.name in MINUTES:
        planned = list(experiment.items(experiment.presets["long"]))
        known = minutes_of(planned, {}, MINUTES[experiment.name])
        yield f"Of the preset `long`, {_rest(planned, known, list(known.values()))}"


def _rest(items: Sequence[str], minutes: Mapping[str, float], like: Sequence[float]) -> str:
    """What items that did not run would take.

    Args:
        minutes: of those whose price is known.
        like: minutes of items like the others.
    """
    told = []
    if minutes:
        each = ", ".join(
            f"{kind} {_time(value)}" for kind, value in {kind_of(i): m for i, m in minutes.items()}.items()
        )
        told.append(f"{_count(len(minutes))} would take about {_time(sum(minutes.values()))} of one core ({each} each)")
    others = len(items) - len(minutes)
    if others:
        mean = f" and would be {_time(others * statistics.fmean(like))} at the mean of those that were" if like else ""
        told.append(f"the price of {_count(others)}{' more' if minutes else ''} is not measured{mean}")
    return "; ".join(told) + "."


def _count(items: int) -> str:
    return f"{items} item" if items == 1 else f"{items} items"


def _time(minutes: float) -> str:
    """In words that fit the size."""
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
