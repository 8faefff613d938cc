"""The race on a table, where trainings are short and networks learn rows by heart.

Known-good settings train for a short time, and the better half of them until the validation loss no longer falls. The
rest of the time goes to relatives of the best, wave after wave, instead of into the same few networks.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from polyarch.errors import ConfigError
from polyarch.methods.race.rungs import Lane, survivors, train_lanes
from polyarch.methods.race.settings import RaceSettings
from polyarch.methods.race.suggestion import delivery_seconds
from polyarch.methods.race.table_candidates import relatives, starters
from polyarch.methods.race.table_ensemble import MemberLikelihoods
from polyarch.methods.race.training import CandidateTraining
from polyarch.randomness import generator_at
from polyarch.runs.display import several
from polyarch.runs.plan import PlannedStage, start_seconds
from polyarch.runs.run import Run

LEAST_GAIN = 0.003
"""A wave that lowers the validation loss of the ensemble by a smaller share has brought nothing."""
WAVES_WITHOUT_GAIN = 3
"""So many of them in a row, and the race is over."""
LEAST_SHARE = 0.5
"""A wave begins if it has this share of the time that a training usually takes."""


def hold_table_race(run: Run) -> list[Lane]:
    """All candidates with their results; those that were not eliminated come first."""
    settings = run.settings.section(RaceSettings)
    assert settings.first_seconds is not None
    task = CandidateTraining(run, run.workspace.checkpoints / "race")
    likelihoods = MemberLikelihoods(run, task)
    with run.executor().open(task) as train:
        lanes = _begun(run, task, [Lane(one) for one in starters(run, settings.candidates)])
        lanes = train_lanes(run, lanes, "rung 0", train, settings.first_seconds)
        if not lanes:
            raise ConfigError("Expected a race in which a network has begun to train. Found none; go on with --resume.")
        kept = survivors(lanes, max(-(-len(lanes) // 2), settings.finalists), is_image=False)
        out = [replace(lane, is_out=True) for lane in lanes if lane not in kept]
        each = settings.first_seconds + _seconds_left(run, lanes) * settings.finalists / len(kept)
        ended = train_lanes(run, kept, "rung 1", train, each)
        lowest, idle, wave = likelihoods.loss([*ended, *out]), 0, 0
        while idle < WAVES_WITHOUT_GAIN:
            left = _seconds_left(run, [*ended, *out])
            has_run = bool(run.workspace.journal(f"race wave {wave + 1}").records)  # before a resumption
            if not has_run and left < LEAST_SHARE * statistics.median(lane.last["seconds"] for lane in ended):
                break
            ordered = sorted(ended, key=lambda lane: float(lane.last["valid_loss"]))
            generator = generator_at(run.settings.seed, "relatives", wave)
            wave += 1
            candidates = relatives(run, [lane.candidate for lane in [*ordered, *out]], settings.finalists, generator)
            new = _begun(run, task, [Lane(one) for one in candidates])
            if not new:  # a race that finishes now
                break
            ended += train_lanes(run, new, f"wave {wave}", train, left)
            found = likelihoods.loss([*ended, *out])
            idle = idle + 1 if lowest - found < LEAST_GAIN * abs(lowest) else 0
            lowest = min(lowest, found)
    if idle == WAVES_WITHOUT_GAIN:
        run.display.say(
            f"The race ends before its time: {len(ended) + len(out)} networks were trained, and the last "
            f"{WAVES_WITHOUT_GAIN * settings.finalists} of them hardly lowered the validation loss of the ensemble."
        )
    return [*ended, *out]


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
    if settings.clock == "real" and not run.finish_now:
        left = run.seconds_left() - delivery_seconds(run.settings)
        planned = min(planned, left) if run.settings.evidence else left  # evidence has its own part of the minutes
    return max(planned, 0.0)
