"""The race: many candidates for a short time, the better half for twice as long, and so on to the finalists.

Successive halving: Jamieson and Talwalkar (2016), "Non-stochastic Best Arm Identification and Hyperparameter
Optimization", AISTATS. By training speed: Ru et al. (2021), "Speedy Performance Estimation for Neural Architecture
Search", arXiv:2006.04492.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

from polyarch.errors import ConfigError
from polyarch.methods.race.candidates import OTHERS, Candidate, field, mutated
from polyarch.methods.race.inheritance import hand_over
from polyarch.methods.race.settings import RaceSettings
from polyarch.methods.race.suggestion import evidence_waves
from polyarch.methods.race.training import CandidateTraining, Leg
from polyarch.randomness import generator_at
from polyarch.runs.busy_time import seconds_before
from polyarch.runs.plan import delivery_seconds
from polyarch.runs.run import Run
from polyarch.runs.workspace import run_missing

AT_ONCE = 1e-9
"""Seconds that every training has used up already."""

Measured = Mapping[str, Any]
"""What a leg returned."""


@dataclass(frozen=True)
class Rung:
    """So many candidates train up to so many seconds."""

    count: int
    seconds: float


@dataclass(frozen=True)
class Lane:
    """A candidate and what it was like after each of its legs.

    ``parent`` is where its weights come from; ``is_out`` says that a race on a table has eliminated it.
    """

    candidate: Candidate
    legs: tuple[Measured, ...] = ()
    parent: Candidate | None = None
    is_out: bool = False

    @property
    def last(self) -> Measured:
        """After the last leg."""
        return self.legs[-1]


def rungs(settings: RaceSettings) -> list[Rung]:
    """Those before the final: half the candidates, at least as many as finalists, go on to twice the time."""
    assert settings.first_seconds is not None
    found = [Rung(settings.candidates, settings.first_seconds)]
    while found[-1].count > 2 * settings.finalists:
        found.append(Rung(max(-(-found[-1].count // 2), 2 * settings.finalists), 2 * found[-1].seconds))
    return found


def hold_race(run: Run) -> list[Lane]:
    """All candidates with their results; the finalists come first."""
    settings = run.settings.section(RaceSettings)
    assert settings.seconds is not None
    task = CandidateTraining(run, run.workspace.checkpoints / "race")
    out: list[Lane] = []
    lanes = [Lane(candidate) for candidate in field(run, settings.candidates, settings.seconds)]
    with run.executor().open(task) as train:
        for place, rung in enumerate(rungs(settings)):
            if place:
                kept = survivors(lanes, rung.count, run.feed.data.is_image)
                out += [lane for lane in lanes if lane not in kept]
                lanes = kept + (children(run, kept, rung.count - len(kept)) if run.feed.data.is_image else [])
                for lane in lanes:  # all of them before any parent goes on
                    if lane.parent is not None and not run.finish_now:
                        hand_over(task, lane.parent, lane.candidate)
            if run.finish_now:
                lanes = [lane for lane in lanes if task.has_begun(lane.candidate)]
            lanes = train_lanes(run, lanes, f"rung {place}", train, rung.seconds)
        if not lanes:
            raise ConfigError("Expected a race in which a network has begun to train. Found none; go on with --resume.")
        finalists = best(lanes, settings.finalists)
        out += [lane for lane in lanes if lane not in finalists]
        seconds = final_seconds(run, settings)
        turn = turn_of(settings, seconds)
        finalists = train_lanes(run, finalists, "final", train, turn)
        finalists = train_lanes(run, finalists, "finish", train, seconds, turn)
    return [*finalists, *out]


def survivors(lanes: Sequence[Lane], count: int, is_image: bool) -> list[Lane]:
    """The best by expected training loss and by validation loss in turn, so that neither alone decides.

    Images leave half of the places for children.
    """
    orders = [
        sorted(lanes, key=lambda lane: lane.last["expected_loss"]),
        sorted(lanes, key=lambda lane: lane.last["valid_loss"]),
    ]
    found = list({lane.candidate: lane for lane in chain.from_iterable(zip(*orders, strict=True))}.values())
    return found[: -(-count // 2) if is_image else count]


def best(lanes: Sequence[Lane], count: int) -> list[Lane]:
    """Those of the lowest validation loss: training losses under different augmentations do not compare."""
    return sorted(lanes, key=lambda lane: lane.last["valid_loss"])[:count]


def children(run: Run, parents: Sequence[Lane], count: int) -> list[Lane]:
    """Candidates that go on from the weights of others, the best parents first.

    They have another augmentation and another size in turn: the next wider, narrower, deeper or shallower stage.
    """
    known = {lane.candidate for lane in parents}
    found: list[Lane] = []
    for lane, place in product(parents, range(2)):
        parent = lane.candidate
        other = mutated(parent.architecture, generator_at(run.settings.seed, "mutation", parent.key))
        possible = [replace(parent, augmentation=name) for name in OTHERS[parent.augmentation][place : place + 1]]
        possible += [replace(parent, architecture=other)] if place == 0 and run.limits.allows(other) else []
        for child in (replace(one, is_reference=False) for one in possible):
            if child not in known:
                known.add(child)
                found.append(Lane(child, lane.legs, parent))
    return found[:count]


def train_lanes(
    run: Run, lanes: Sequence[Lane], stage: str, train: Any, seconds: float, falls_after: float | None = None
) -> list[Lane]:
    """Every lane with one leg more, which adds nothing to the training of a run that finishes now."""
    until = AT_ONCE if run.finish_now else seconds
    items = {lane.candidate.key: Leg(lane.candidate, until, falls_after) for lane in lanes}
    with run.display.stage(stage) as report, run.stop.at_once():
        found = run_missing(items, run.workspace.journal(f"race {stage}"), train, dict, report)
    return [replace(lane, legs=(*lane.legs, found[lane.candidate.key])) for lane in lanes]


def turn_of(settings: RaceSettings, seconds: float) -> float:
    """When the learning rate of a training of so many seconds begins to fall: not before the final."""
    return max(seconds * (1 - settings.falling), rungs(settings)[-1].seconds)


def final_seconds(run: Run, settings: RaceSettings) -> float:
    """What a finalist may take in all: as planned or, with a limit on the minutes, what is left of them."""
    assert settings.seconds is not None
    if settings.clock != "real" or run.settings.max_minutes is None or run.finish_now:
        return settings.seconds
    journal = run.workspace.journal("race final seconds")
    if not journal.records:
        before = rungs(settings)[-1].seconds
        waves = -(-settings.finalists // run.settings.workers)
        left = seconds_before(run, delivery_seconds(run.settings))
        both = waves + evidence_waves(run.settings)  # networks trained as evidence begin afresh
        journal.append({"seconds": max((left + waves * before) / both, before + 1.0)})
    return float(journal.records[0]["seconds"])
