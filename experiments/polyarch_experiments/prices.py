"""What experiments cost: processor time of the items that ran, and an estimate for those that did not."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from polyarch_experiments.experiment import Experiment
from polyarch_experiments.results import VERSION, ExperimentResults

FILE = Path(__file__).with_name("minutes.json")
MINUTES: dict[str, dict[str, float]] = json.loads(FILE.read_text())
"""Minutes of one core for one item of the preset by `priced_preset`, by experiment and item without its seed, as
``benchmarks/experiment_prices.py`` measured them; what has not been timed is not here."""


def priced_preset(experiment: Experiment) -> str:
    """The preset that two cores are meant to run: ``long``, or ``cpu`` where an experiment has no ``long``."""
    return "long" if "long" in experiment.presets else "cpu"


def kind_of(item: str) -> str:
    """The name of an item without its seed or the number of its share: items that differ in it alone cost the same."""
    return re.sub(r"\b(truth|alone) \d+", r"\1", re.sub(r",? ?\bseed \d+$", "", item)) or "seed"


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
    """Sentences on what the results cost, what the rest of them would, and what those of other settings would."""
    seconds, preset = results.processor_seconds, priced_preset(experiment)
    earlier = results.version < VERSION  # the experiment may have had other items then
    rest = [] if earlier else [item for item in experiment.items(results.settings) if item not in results.runs]
    if seconds:
        yield f"{_count(len(seconds))} took {_time(sum(seconds.values()) / 60)} of one core."
    pieces = MINUTES.get(experiment.name, {}) if results.preset == preset else {}
    if rest:
        ran, known = len(results.runs), minutes_of(rest, seconds, pieces)
        like = [value / 60 for item, value in seconds.items() if kind_of(item) != item] or list(pieces.values())
        yield f"{ran} of {ran + len(rest)} items have run; {_rest(rest, known, like)}"
    elif experiment.name in MINUTES and (earlier or results.settings != experiment.presets[preset]):
        yield planned_price(experiment)


def planned_price(experiment: Experiment) -> str:
    """What all items of the priced preset would take."""
    preset, pieces = priced_preset(experiment), MINUTES.get(experiment.name, {})
    planned = list(experiment.items(experiment.presets[preset]))
    return f"Of the preset `{preset}`, {_rest(planned, minutes_of(planned, {}, pieces), list(pieces.values()))}"


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
