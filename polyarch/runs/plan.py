"""What a run is going to do and about how long it takes, from a timed warm-up of the very steps."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from rich.table import Table

from polyarch.data import endless
from polyarch.estimators import Scoring
from polyarch.executors import one_thread
from polyarch.runs import guided_search, stochastic_search
from polyarch.runs.comparison import EXPORT_SECONDS
from polyarch.runs.run import Context
from polyarch.methods.depth.suggestion import SHARE_OF_WORK
from polyarch.methods.differentiable.suggestion import MIXED, passes_of
from polyarch.runs.display import Display
from polyarch.methods.one_shot.elimination import rungs_of
from polyarch.methods.depth.fixed import MOST_DEPTHS
from polyarch.runs.pipeline import Stage, stages_until
from polyarch.methods.one_shot.second_supernet import wants_second
from polyarch.runs.settings import RunSettings
from polyarch.methods.stochastic.suggestion import PASSES_UNLABELLED
from polyarch.randomness import generator_at
from polyarch.ranking import halving_steps
from polyarch.strategies import OneShot

WARM_UP_STEPS = 8
START_SECONDS = 5.0
"""What it takes to start worker processes."""
STEP_OVER_FORWARD = 3.0
"""What a training step takes, in forward passes over its batch."""
EXTRACTION_SECONDS = 0.2
"""What it takes to cut a draw out of a network."""
LARGER = 1.5
"""Networks that a search finds train slower than random ones, because it prefers large ones."""


@dataclass(frozen=True)
class PlannedStage:
    """A stage in words, with an estimate in seconds."""

    name: str
    work: str
    seconds: float


@dataclass(frozen=True)
class Timings:
    """Measured seconds: of a supernet step, and of scoring one architecture in each stage.

    A supernet step trains ``paths`` architectures on ``batches`` batches. ``judging`` is what the members of a network
    with many architectures take beyond the usual, ``candidate`` what it takes to judge one draw from a posterior.
    """

    step: float
    rank_score: float
    search_score: float
    paths: int = 1
    batches: int = 1
    judging: float = 0.0
    candidate: float = 0.0


def measure(context: Context, until: Stage) -> Timings:
    """Times the very steps of the run on copies, so the run itself is untouched."""
    settings = context.parts.settings
    stages = stages_until(until) if settings.method == "one-shot" else ()
    with one_thread(), torch.random.fork_rng():
        step, paths, batches = _step_seconds(context)
        return Timings(
            step=step,
            paths=paths,
            batches=batches,
            rank_score=_rank_seconds(context) if "rank" in stages else 0.0,
            search_score=_score_seconds(context, settings.search.objectives) if "search" in stages else 0.0,
            judging=_judging_seconds(context, step),
            candidate=_candidate_seconds(context, step),
        )


def plan(settings: RunSettings, timings: Timings, examples: int, until: Stage) -> list[PlannedStage]:
    """The stages of a run that starts from nothing, with ``examples`` for training."""
    if settings.is_differentiable:
        return _differentiable_plan(settings, timings, examples, until)
    if settings.method == "stochastic":
        return _stochastic_plan(settings, timings, examples, until)
    if settings.method == "posterior-guided":
        return _guided_plan(settings, timings, examples, until)
    if settings.method != "one-shot":
        return _depth_plan(settings, timings, examples, until)
    stages = stages_until(until)
    workers = settings.workers
    start = START_SECONDS if workers > 1 else 0.0
    train, rank, search = settings.train, settings.rank, settings.search
    second = "rank" in stages and wants_second(settings)
    waves = math.ceil(rank.architectures / workers)
    batch_size = min(train.batch_size, examples)
    steps = examples // batch_size // timings.batches  # of an epoch
    example = timings.step / (timings.paths * timings.batches * batch_size)  # of one architecture
    planned = {
        "train": PlannedStage(
            "train",
            f"{'two supernets' if second else 'supernet'} of {settings.space.kind}, {train.strategy}, {train.epochs} "
            f"epochs of {examples} examples",
            timings.step * steps * train.epochs * (2 if second and workers == 1 else 1),
        ),
        "rank": PlannedStage(
            "rank",
            f"{rank.architectures} architectures by {_judges(settings)}",
            start + (timings.rank_score + (timings.search_score if second else 0.0)) * waves if waves else 0.0,
        ),
        "search": PlannedStage(
            "search",
            f"{search.budget} architectures by {search.sampler} on {', '.join(search.objectives)}",
            timings.search_score * math.ceil(search.budget / workers),
        ),
        "retrain": _retraining(settings, examples, example),
        "export": PlannedStage("export", "calibration, artifacts and report", EXPORT_SECONDS),
    }
    return [planned[stage] for stage in (*stages, *(["retrain", "export"] if "search" in stages else []))]


def _retraining(settings: RunSettings, examples: int, example: float) -> PlannedStage:
    """Networks trained alone, where an architecture takes ``example`` seconds for an example."""
    retrain, workers = settings.retrain, settings.workers
    networks = retrain.seeds + retrain.members - 1 + retrain.random_architectures
    start = START_SECONDS if workers > 1 else 0.0
    return PlannedStage(
        "retrain",
        f"{retrain.seeds} x the best, {retrain.members - 1} more for the ensemble and "
        f"{retrain.random_architectures} random ones, {retrain.epochs} epochs",
        start + math.ceil(networks / workers) * examples * retrain.epochs * example * LARGER,
    )


def _differentiable_plan(settings: RunSettings, timings: Timings, examples: int, until: Stage) -> list[PlannedStage]:
    """The one training of weights and q, in which all options are run, then networks alone."""
    train, chosen = settings.train, settings.differentiable
    batch_size = min(train.batch_size, examples)
    steps = examples // batch_size // timings.batches
    stages = f" in {len(chosen.stages)} stages" if chosen.stages else ""
    work = f"{settings.method} on {settings.space.kind}{stages}, {train.epochs} epochs of {examples} examples"
    trained = PlannedStage("train", work, timings.step * steps * train.epochs * (1.5 if chosen.stages else 1.0))
    if until == "train":
        return [trained]
    example = timings.step / (timings.batches * batch_size * MIXED * passes_of(chosen.model_dump()))
    return [
        trained,
        _retraining(settings, examples, example),
        PlannedStage("export", "calibration, artifacts and report", EXPORT_SECONDS),
    ]


def _stochastic_plan(settings: RunSettings, timings: Timings, examples: int, until: Stage) -> list[PlannedStage]:
    """The one training under many architectures, then the network to compare with."""
    train, retrain, workers = settings.train, settings.retrain, settings.workers
    batch_size = min(train.batch_size, examples)
    unlabelled = settings.data.unlabelled is not None
    also = ", also on examples without labels" if unlabelled else ""
    work = (
        f"{settings.space.kind} under {settings.stochastic.architectures} architectures{also}, {train.epochs} epochs "
        f"of {examples} examples"
    )
    trained = PlannedStage("train", work, timings.step * (examples // batch_size) * train.epochs)
    if until == "train":
        return [trained]
    example = timings.step / (batch_size * (PASSES_UNLABELLED if unlabelled else 1))
    start = START_SECONDS if workers > 1 else 0.0
    alone = PlannedStage(
        "retrain",
        f"{retrain.seeds} x a network trained alone, {retrain.epochs} epochs",
        start + math.ceil(retrain.seeds / workers) * examples * retrain.epochs * example,
    )
    export = PlannedStage("export", "choice, calibration, artifacts and report", EXPORT_SECONDS + timings.judging)
    return [trained, alone, export]


def _guided_plan(settings: RunSettings, timings: Timings, examples: int, until: Stage) -> list[PlannedStage]:
    """The one training of kernels and drop probabilities, the draws, then the best further and the whole alone."""
    train, retrain, chosen, workers = settings.train, settings.retrain, settings.guided, settings.workers
    batch_size = min(train.batch_size, examples)
    work = f"{settings.space.kind}, kernels and drop probabilities, {train.epochs} epochs of {examples} examples"
    trained = PlannedStage("train", work, timings.step * (examples // batch_size) * train.epochs)
    if until == "train":
        return [trained]
    start = START_SECONDS if workers > 1 else 0.0
    example = timings.step / batch_size
    drawn = chosen.candidates + chosen.random_candidates
    epochs = math.ceil(retrain.seeds / workers) * retrain.epochs + chosen.tune_epochs
    return [
        trained,
        PlannedStage(
            "draw",
            f"{chosen.candidates} networks from the posterior and {chosen.random_candidates} random ones",
            start + math.ceil(drawn / workers) * timings.candidate,
        ),
        PlannedStage(
            "retrain",
            f"the best for {chosen.tune_epochs} epochs, {retrain.seeds} x the whole network alone for {retrain.epochs}",
            2 * start + epochs * examples * example,
        ),
        PlannedStage("export", "calibration, artifacts and report", EXPORT_SECONDS + timings.judging),
    ]


def _depth_plan(settings: RunSettings, timings: Timings, examples: int, until: Stage) -> list[PlannedStage]:
    """The one training of a learned depth, or that of every fixed depth."""
    train, retrain = settings.train, settings.retrain
    if settings.method == "variational-depth":
        example = timings.step / min(train.batch_size, examples)
        work = f"{settings.space.kind}, weights and posterior, up to {train.epochs} epochs of {examples} examples"
        trained = PlannedStage("train", work, example * examples * train.epochs)
    else:
        example = timings.step / min(train.batch_size, examples)
        count = (len(settings.depth.depths) or MOST_DEPTHS) * retrain.seeds
        work = f"{count} networks of fixed depth, {retrain.epochs} epochs"
        seconds = math.ceil(count / settings.workers) * example * examples * retrain.epochs * SHARE_OF_WORK
        trained = PlannedStage("retrain", work, START_SECONDS + seconds)
    if until == "train":
        return [trained]
    return [trained, PlannedStage("export", "choice, calibration, artifacts and report", EXPORT_SECONDS)]


def total_seconds(planned: Sequence[PlannedStage]) -> float:
    """All stages together."""
    return math.fsum(stage.seconds for stage in planned)


def show_plan(display: Display, planned: Sequence[PlannedStage], workers: int, *, resumed: bool = False) -> None:
    """Every stage with its time, and all of them together."""
    table = Table("stage", "work", "about")
    for stage in planned:
        table.add_row(stage.name, stage.work, in_words(stage.seconds))
    display.say(table)
    crew = f"{workers} worker{'s' if workers > 1 else ''}"
    display.say(f"About {in_words(total_seconds(planned))} with {crew} from the start.")
    if resumed:
        display.say("What is already done is not done again.")


def _step_seconds(context: Context) -> tuple[float, int, int]:
    """The mean time of a training step on copies of supernet and optimiser, and how many paths and batches it uses."""
    parts = replace(context.parts, net=copy.deepcopy(context.parts.net))
    strategy, _ = parts.strategy()
    source = parts.batches(parts.train, parts.settings.train.batch_size, stream="train")
    size = strategy.batches_per_step
    batches = list(islice(source.epoch(0), max(WARM_UP_STEPS, size)))
    groups = [batches[first : first + size] for first in range(0, len(batches) - size + 1, size)]
    held_out = list(islice(endless(parts.held_out_batches()), strategy.held_out_per_step))
    if size <= WARM_UP_STEPS:
        strategy.step(groups[0], held_out, generator=generator_at(0, "plan", 0))
    started = time.perf_counter()
    for index, group in enumerate(groups):
        strategy.step(group, held_out, generator=generator_at(0, "plan", index))
    seconds = (time.perf_counter() - started) / len(groups)
    return seconds, strategy.paths.count if isinstance(strategy, OneShot) else 1, size


def _judging_seconds(context: Context, step: float) -> float:
    """Forward passes over validation and test examples, where a method takes more than the usual ones."""
    counts = {"stochastic": stochastic_search.judging_passes, "posterior-guided": guided_search.judging_passes}
    count = counts.get(context.parts.settings.method)
    return 0.0 if count is None else count(context.parts) * _forward_seconds(context, step)


def _candidate_seconds(context: Context, step: float) -> float:
    """To extract one draw and judge it."""
    if context.parts.settings.method != "posterior-guided":
        return 0.0
    judged = len(guided_search.judging_examples(context.parts))
    return EXTRACTION_SECONDS + judged * _forward_seconds(context, step)


def _forward_seconds(context: Context, step: float) -> float:
    """Of one example, from the time of a training step."""
    parts = context.parts
    examples = min(parts.settings.train.batch_size, len(parts.train))
    passes = PASSES_UNLABELLED if parts.unlabelled is not None else 1
    return step / (examples * passes * STEP_OVER_FORWARD)


def _score_seconds(context: Context, names: tuple[str, ...]) -> float:
    """The time of one score of one random architecture."""
    (architecture,) = context.draw(1, "plan")
    started = time.perf_counter()
    Scoring(context.parts.net, context.parts.estimators(names))(architecture)
    return time.perf_counter() - started


def _rank_seconds(context: Context) -> float:
    """The mean time per architecture that is ranked."""
    settings = context.parts.settings
    if not settings.rank.halving:
        return _score_seconds(context, settings.rank.estimators)
    rungs, count = rungs_of(settings), max(settings.rank.architectures, 1)
    return _score_seconds(context, ("sotl",)) * halving_steps(count, rungs) / (count * rungs[-1])


def _judges(settings: RunSettings) -> str:
    return "sotl with early elimination" if settings.rank.halving else ", ".join(settings.rank.estimators)


def in_words(seconds: float) -> str:
    """For people: '40 seconds', '12 minutes', '3.5 hours'."""
    if seconds < 120:
        return f"{max(round(seconds), 1)} seconds"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"
