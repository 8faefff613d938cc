"""What is chosen for a user who only brings data and minutes: a space, a recipe and how the time is spent."""

import math
from typing import Any

from polyarch.data import Dataset
from polyarch.errors import ConfigError
from polyarch.methods.race.settings import RANDOM, SEEDS, RaceSettings
from polyarch.methods.race.table_candidates import is_table_race
from polyarch.methods.race.table_suggestion import (
    TABLE_EXPLORING,
    TABLE_FIRST_SECONDS,
    number_scaling,
    table_proposal,
    table_recipe,
)
from polyarch.runs.display import several
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import delivery_seconds, in_words, start_seconds, usual_seconds
from polyarch.runs.recipe import suitable_recipe
from polyarch.runs.settings import RunSettings
from polyarch.runs.suggestion import SpaceProposal, Suggestion, merged, trial, validation_share

EXPLORING = 0.15
"""The share of all cores' time that goes into the first rung."""

FINAL = 0.85
"""About the share of a core's time that a finalist gets."""

LEAST_FIRST_SECONDS = 3.0
"""A shorter first rung tells nothing: most of it is the start."""


def suggest_race(asked: RunSettings, data: Dataset, builder: Builder | None) -> Suggestion:
    """A space, a recipe and how the time is spent; what was asked for stays."""
    found: dict[str, Any] = {"data": {"validation": validation_share(data), "numbers": number_scaling(data)}}
    if asked.space.kind == "auto":
        proposal = _proposal(asked, data)
        found["space"], reason = proposal.settings, proposal.reason
    else:
        reason = "your own network" if asked.space.kind == "module" else "as asked for"
    run = trial(asked, data, found, builder)
    recipe = suitable_recipe(data, len(run.feed.train)) if data.is_image else table_recipe(len(run.feed.train))
    found["race"] = recipe | _spent(asked, len(run.feed.train), is_table_race(run))
    taken = merged(found["race"], asked.section(RaceSettings).model_dump(exclude_unset=True))
    reasons = [
        f"space {run.settings.space.kind}: {reason}",
        f"race: {several(taken['candidates'], 'network')} of different sizes, the plain one among them, for "
        f"{taken['first_seconds']:.0f} seconds each, the better half for twice as long, and so on; "
        f"{several(taken['finalists'], 'finalist')} for {in_words(taken['seconds'])} each"
        if not is_table_race(run)
        else f"race: {several(taken['candidates'], 'known-good setting')} for {taken['first_seconds']:.0f} seconds "
        f"each, the better half for twice as long, and the better half of those until they no longer improve; then the "
        f"best with other parts of the examples held out, and relatives of the best; {in_words(taken['seconds'])} in "
        "all, or less",
    ]
    return Suggestion(found, reasons, run)


def evidence_waves(settings: RunSettings) -> int:
    """How many trainings of a finalist's length follow one after the other where evidence was asked for."""
    return math.ceil((SEEDS + RANDOM + 1) / settings.workers) if settings.evidence else 0


def _proposal(asked: RunSettings, data: Dataset) -> SpaceProposal:
    if data.is_image:
        return SpaceProposal({"kind": "pooled"}, "pooled convolutions of 8 to 96 channels, and plain residual networks")
    return table_proposal(data, asked.workers * _table_seconds(asked, len(data.train)))


def _table_seconds(asked: RunSettings, examples: int) -> float:
    """What a race on a table has on each core: what was asked for comes first."""
    return asked.section(RaceSettings).seconds or _seconds(asked, examples)


def _seconds(asked: RunSettings, examples: int) -> float:
    """What the race has on each core: the usual time, or the minutes that were asked for without what is not race."""
    if asked.max_minutes is None:  # evidence comes on top
        return usual_seconds(examples)
    least = delivery_seconds(asked) + start_seconds(asked) + 2 * LEAST_FIRST_SECONDS
    if 60 * asked.max_minutes < least:
        minutes = math.ceil(least / 6) / 10
        raise ConfigError(f"Expected a limit of {minutes:g} minutes or more for a race. Got {asked.max_minutes:g}.")
    seconds = 60 * asked.max_minutes - delivery_seconds(asked) - start_seconds(asked)
    return seconds / (1 + FINAL * evidence_waves(asked))  # evidence shares the minutes


def _spent(asked: RunSettings, examples: int, is_table: bool) -> dict[str, Any]:
    """Candidates, finalists and seconds for the time that there is: fewer candidates where there is little.

    Tables have known-good settings as candidates, and ``seconds`` for all of the race, on each core.
    """
    workers, each = asked.workers, (_table_seconds if is_table else _seconds)(asked, examples)
    finalists = workers
    candidates = max(4 * finalists, 8) if is_table else 4 * finalists
    exploring, least = (TABLE_EXPLORING, TABLE_FIRST_SECONDS) if is_table else (EXPLORING, LEAST_FIRST_SECONDS)
    first = exploring * workers * each / candidates
    while first < least and candidates > finalists:
        candidates = max(candidates // 2, finalists)
        first = exploring * workers * each / candidates
    # Before the final: all candidates for e seconds and, where there are many, half of them for another e.
    before = candidates * first + (candidates // 2 * first if candidates > 2 * finalists else 0)
    reached = 2 * first if candidates > 2 * finalists else first
    seconds = each if is_table else reached + (workers * each - before) / finalists
    return {
        "candidates": candidates,
        "finalists": finalists,
        "first_seconds": round(first, 1),
        "seconds": round(seconds, 1),
        "clock": "work" if asked.max_minutes is None else "real",
    }
