"""The race: many candidates for a short time, the better half for twice as long, and so on to the finalists.

The plain network is never eliminated.

Successive halving: Jamieson and Talwalkar (2016), "Non-stochastic Best Arm Identification and Hyperparameter
Optimization", AISTATS. By training speed: Ru et al. (2021), "Speedy Performance Estimation for Neural Architecture
Search", arXiv:2006.04492.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from polyarch.errors import ConfigError
from polyarch.methods.race.candidates import OTHERS, Candidate, field
from polyarch.methods.race.settings import RaceSettings
from polyarch.methods.race.suggestion import delivery_seconds
from polyarch.methods.race.training import CandidateTraining, Leg
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
                lanes = kept + children(kept, rung.count - len(kept), run.feed.data.is_image)
                if not run.finish_now:
                    _hand_over(task, lanes)
            if run.finish_now:
                lanes = [lane for lane in lanes if task.has_begun(lane.candidate)]
            lanes = train_lanes(run, lanes, f"rung {place}", train, rung.seconds)
        if not lanes:
            raise ConfigError("Expected a race in which a network has begun to train. Found none; go on with --resume.")
        finalists = best(lanes, settings.finalists)
        out += [lane for lane in lanes if lane not in finalists]
        seconds = _final_seconds(run, settings, rung.seconds)
        turn = max(seconds * (1 - settings.falling), rung.seconds)
        finalists = train_lanes(run, finalists, "final", train, turn)
        finalists = train_lanes(run, finalists, "finish", train, seconds, turn)
    return [*finalists, *out]


def survivors(lanes: Sequence[Lane], count: int, is_image: bool) -> list[Lane]:
    """The plain network, and the best of the others by expected training loss and by validation loss in turn.

    Neither alone decides. Images leave half of the places for children with other augmentations.
    """
    plain = [lane for lane in lanes if lane.candidate.is_reference]
    others = [lane for lane in lanes if not lane.candidate.is_reference]
    places = max(count - len(plain), 1)
    orders = [
        sorted(others, key=lambda lane: lane.last["expected_loss"]),
        sorted(others, key=lambda lane: lane.last["valid_loss"]),
    ]
    found: list[Lane] = []
    for lane in chain.from_iterable(zip(*orders, strict=True)):
        if lane not in found:
            found.append(lane)
    return plain + found[: -(-places // 2) if is_image else places]


def best(lanes: Sequence[Lane], count: int) -> list[Lane]:
    """Those of the lowest validation loss, but for the last place, which is the plain network's.

    Training losses under different augmentations do not compare. Trained to the end, the plain network says what the
    race was worth, and is another member of the ensemble.
    """
    ordered = sorted(lanes, key=lambda lane: lane.last["valid_loss"])
    plain = [lane for lane in ordered if lane.candidate.is_reference and lane not in ordered[:count]]
    return ordered[:count] if count == 1 else [*ordered[: count - len(plain)], *plain]


def children(lanes: Sequence[Lane], count: int, is_image: bool) -> list[Lane]:
    """Candidates that go on from the weights of others with another augmentation, the best parents first.

    The plain network stays as it is.
    """
    if not is_image:
        return []
    lanes = [lane for lane in lanes if not lane.candidate.is_reference]
    known = {lane.candidate for lane in lanes}
    found: list[Lane] = []
    for place in range(2):
        for lane in lanes:
            for name in OTHERS[lane.candidate.augmentation][place : place + 1]:
                child = replace(lane.candidate, augmentation=name, is_reference=False)
                if child not in known:
                    known.add(child)
                    found.append(Lane(child, lane.legs, lane.candidate))
    return found[:count]


def _hand_over(task: CandidateTraining, lanes: Sequence[Lane]) -> None:
    """Gives children the weights of their parents, all of them before any parent goes on."""
    for lane in lanes:
        if lane.parent is None:
            continue
        target = task.folder_of(lane.candidate)
        if not target.exists():
            draft = target.with_suffix(".draft")
            shutil.rmtree(draft, ignore_errors=True)
            shutil.copytree(task.folder_of(lane.parent), draft)
            draft.rename(target)


def train_lanes(
    run: Run, lanes: Sequence[Lane], stage: str, train: Any, seconds: float, falls_after: float | None = None
) -> list[Lane]:
    """Every lane with one leg more, which adds nothing to the training of a run that finishes now."""
    until = AT_ONCE if run.finish_now else seconds
    items = {lane.candidate.key: Leg(lane.candidate, until, falls_after) for lane in lanes}
    with run.display.stage(stage) as report, run.stop.at_once():
        found = run_missing(items, run.workspace.journal(f"race {stage}"), train, dict, report)
    return [replace(lane, legs=(*lane.legs, found[lane.candidate.key])) for lane in lanes]


def _final_seconds(run: Run, settings: RaceSettings, before: float) -> float:
    """What a finalist may take in all: as planned or, with a limit on the minutes, what is left of them."""
    assert settings.seconds is not None
    if settings.clock != "real" or run.finish_now:
        return settings.seconds
    journal = run.workspace.journal("race final seconds")
    if not journal.records:
        waves = -(-settings.finalists // run.settings.workers)
        left = (run.seconds_left() - delivery_seconds(run.settings)) / waves
        journal.append({"seconds": before + max(left, 1.0)})
    return float(journal.records[0]["seconds"])
