"""The race on a table, where trainings are short and networks learn rows by heart.

Known-good settings train for a short time, the better half of them for twice as long, and the better half of those
until the validation loss no longer falls. The rest of the time goes into networks that are validated by other parts of
the examples, and so are trained on what validates the first, and into relatives of the best.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from polyarch.errors import ConfigError
from polyarch.methods.race.candidates import Candidate
from polyarch.methods.race.rungs import AT_ONCE, Lane, survivors, train_lanes
from polyarch.methods.race.settings import RaceSettings
from polyarch.methods.race.table_candidates import relatives, starters
from polyarch.methods.race.table_ensemble import (
    TableEnsembles,
    best_setting,
    complete_settings,
    more_examples,
    table_training,
    whole_leg,
)
from polyarch.methods.race.training import CandidateTraining
from polyarch.randomness import generator_at
from polyarch.runs.busy_time import seconds_before
from polyarch.runs.display import several
from polyarch.runs.plan import PlannedStage, delivery_seconds, start_seconds
from polyarch.runs.run import Run
from polyarch.runs.workspace import run_missing

LEAST_GAIN = 0.003
"""A wave that lowers the validation loss of the ensemble by a smaller share has brought nothing."""
WAVES_WITHOUT_GAIN = 3
"""So many of them in a row, and the race is over."""
RIPE_PASSES = 30
"""After so many passes over the examples it is better to train on the examples that validate, too, than longer.

A guess, made on vowel and wdbc."""
LEAST_SHARE = 0.5
"""A wave begins if it has this share of the time that its trainings usually take."""


def hold_table_race(run: Run) -> list[Lane]:
    """All candidates with their results; those that were not eliminated come first."""
    settings = run.settings.section(RaceSettings)
    assert settings.first_seconds is not None
    task = table_training(run)
    with run.executor().open(task) as train:
        lanes = _begun(run, task, [Lane(one) for one in starters(run, settings.candidates)])
        lanes = train_lanes(run, lanes, "rung 0", train, settings.first_seconds)
        if not lanes:
            raise ConfigError("Expected a race in which a network has begun to train. Found none; go on with --resume.")
        kept, out = _halved(lanes, settings.finalists)
        kept = train_lanes(run, kept, "rung 1", train, 2 * settings.first_seconds)
        kept, others = _halved(kept, settings.finalists)
        out += others
        # So long that there is time for the other folds of the best.
        further, each = max(len(task.folds) - 1, 0), kept[0].last["seconds"]
        spare = _seconds_left(run, [*kept, *out]) * settings.finalists
        longer = (spare + len(kept) * each) / (len(kept) + further)
        kept = train_lanes(run, kept, "rung 2", train, max(longer, each))
        if not _is_ripe(run, _ordered(kept)[0]):
            spare = _seconds_left(run, [*kept, *out]) * settings.finalists
            kept = train_lanes(run, kept, "rung 3", train, kept[0].last["seconds"] + spare / len(kept))
        ended = _waves(run, task, train, kept, out)
        _refit(run, task, train, ended)
        return [*ended, *out]


def _is_ripe(run: Run, lane: Lane) -> bool:
    """Whether a network gains less from further training than from the examples that validate it."""
    batch_size = run.settings.section(RaceSettings).batch_size
    passes = int(lane.last["steps"]) * batch_size / len(run.feed.train)
    return bool(lane.last["has_stopped"]) or passes >= RIPE_PASSES


def _halved(lanes: Sequence[Lane], least: int) -> tuple[list[Lane], list[Lane]]:
    """The better half, and the others, which are out."""
    kept = survivors(lanes, max(-(-len(lanes) // 2), least), is_image=False)
    return kept, [replace(lane, is_out=True) for lane in lanes if lane not in kept]


def _waves(run: Run, task: CandidateTraining, train: Any, ended: list[Lane], out: Sequence[Lane]) -> list[Lane]:
    """Trains the best on other folds if there is time for that, and relatives of the best until it is over.

    Without folds, those that are out may be of use in the ensemble, too.
    """
    ensembles, finalists = TableEnsembles(run, task), run.settings.section(RaceSettings).finalists
    folds = _affordable_folds(run, task, ended, out)
    waiting = [[lane.candidate] for lane in _ordered(ended)] if folds > 1 else []
    lowest, idle, wave = float("inf"), 0, 0
    while idle < WAVES_WITHOUT_GAIN:
        if waiting:
            settings = waiting.pop(0)
        else:
            generator = generator_at(run.settings.seed, "relatives", wave)
            known = [lane.candidate for lane in [*_ordered(ended), *out] if lane.candidate.fold == 0]
            settings = relatives(run, known, finalists if folds == 1 else 1, generator)
        trained = {lane.candidate for lane in ended}
        members = [replace(one, fold=fold) for one in settings for fold in range(folds)]
        new = [Lane(one) for one in members if one not in trained]
        left = _seconds_left(run, [*ended, *out]) - _refit_seconds(run, task, ended, folds)
        each = max(left * finalists / max(len(new), finalists), AT_ONCE)
        wave += 1
        has_run = bool(run.workspace.journal(f"race wave {wave}").records)  # before a resumption
        if not has_run and each < LEAST_SHARE * statistics.median(lane.last["seconds"] for lane in ended):
            break
        new = _begun(run, task, new)
        if not new:  # a race that finishes now
            break
        ended = [*ended, *train_lanes(run, new, f"wave {wave}", train, each)]
        found = ensembles.loss(complete_settings([*ended, *out]))
        idle = idle + 1 if lowest - found < LEAST_GAIN * abs(found) else 0
        lowest = min(lowest, found)
    if idle == WAVES_WITHOUT_GAIN:
        run.display.say(
            f"The race ends before its time: {len(ended) + len(out)} networks were trained, and the last "
            f"{WAVES_WITHOUT_GAIN} settings hardly lowered the validation loss of the ensemble."
        )
    return ended


def _refit(run: Run, task: CandidateTraining, train: Any, ended: Sequence[Lane]) -> None:
    """Trains the best setting on all examples, for as many passes as its folds needed, if it has folds.

    That is the network to be delivered alone: the others have not seen the examples that they hold out.
    """
    best = best_setting(run, complete_settings(ended))
    if len(best) == 1 or run.finish_now:
        return
    leg = whole_leg(task, best)
    with run.display.stage("whole") as report, run.stop.at_once():
        run_missing({leg.candidate.key: leg}, run.workspace.journal("race whole"), train, dict, report)


def _refit_seconds(run: Run, task: CandidateTraining, ended: Sequence[Lane], folds: int) -> float:
    """About what that takes of the time of every core."""
    if folds == 1:
        return 0.0
    best = replace(_ordered(ended)[0].candidate, fold=0)
    times = [float(lane.last["seconds"]) for lane in ended if replace(lane.candidate, fold=0) == best]
    return statistics.median(times) * more_examples(task)


def _affordable_folds(run: Run, task: CandidateTraining, ended: Sequence[Lane], out: Sequence[Lane]) -> int:
    """All of them if the best network can be trained on the others in the time that is left; else 1."""
    journal = run.workspace.journal("race folds")
    if not journal.records:
        spare = _seconds_left(run, [*ended, *out]) * run.settings.section(RaceSettings).finalists
        needed = (len(task.folds) - 1) * float(_ordered(ended)[0].last["seconds"])
        journal.append({"folds": len(task.folds) if task.folds and LEAST_SHARE * needed <= spare else 1})
    return int(journal.records[0]["folds"])


def _ordered(lanes: Sequence[Lane]) -> list[Lane]:
    """The best first, by the mean validation loss over the folds of a setting."""
    losses: dict[Candidate, list[float]] = {}
    for lane in lanes:
        losses.setdefault(replace(lane.candidate, fold=0), []).append(float(lane.last["valid_loss"]))
    return sorted(lanes, key=lambda lane: statistics.fmean(losses[replace(lane.candidate, fold=0)]))


def planned_table_race(run: Run) -> PlannedStage:
    """All of it: when trainings end is not known before."""
    settings = run.settings.section(RaceSettings)
    assert settings.seconds is not None
    work = (
        f"{several(settings.candidates, 'network')} for {settings.first_seconds:.0f} seconds each, the better half "
        "until they no longer improve, and relatives of the best"
    )
    waves = -(-settings.finalists // run.settings.workers)
    return PlannedStage("race", work, start_seconds(run.settings) + waves * settings.seconds)


def _begun(run: Run, task: CandidateTraining, lanes: Sequence[Lane]) -> list[Lane]:
    """All of them, or those that have begun, if the race finishes now."""
    return [lane for lane in lanes if not run.finish_now or task.has_begun(lane.candidate)]


def _seconds_left(run: Run, lanes: Sequence[Lane]) -> float:
    """What every core still has: of the minutes or, where seconds are not real ones, of those that were planned."""
    settings = run.settings.section(RaceSettings)
    assert settings.seconds is not None
    used = sum(float(lane.last["seconds"]) for lane in lanes) / settings.finalists
    planned = settings.seconds - used
    if settings.clock == "real" and run.settings.max_minutes is not None and not run.finish_now:
        left = seconds_before(run, delivery_seconds(run.settings))
        planned = min(planned, left) if run.settings.evidence else left  # evidence has its own part of the minutes
    return max(planned, 0.0)
