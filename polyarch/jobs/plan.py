"""What a run is going to do and about how long it takes, from a timed warm-up of the very steps."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, replace
from itertools import islice

import torch

from polyarch.estimators import Scoring
from polyarch.executors import one_thread
from polyarch.jobs.context import Context
from polyarch.jobs.pipeline import Stage, stages_until
from polyarch.randomness import generator_at

WARM_UP_STEPS = 5
START_SECONDS = 5.0
"""What it takes to start worker processes."""


@dataclass(frozen=True)
class PlannedStage:
    """A stage in words, with an estimate in seconds."""

    name: str
    work: str
    seconds: float


def plan(context: Context, until: Stage) -> list[PlannedStage]:
    """The stages of a run that starts from nothing; measures on copies, so the run itself is untouched."""
    parts, settings = context.parts, context.parts.settings
    stages = stages_until(until)
    workers = settings.workers
    start = START_SECONDS if workers > 1 else 0.0
    with one_thread(), torch.random.fork_rng():
        step = _step_seconds(context)
        rank_score = _score_seconds(context, settings.rank.estimators) if "rank" in stages else 0.0
        search_score = _score_seconds(context, settings.search.objectives) if "search" in stages else 0.0
    train, rank, search, retrain = settings.train, settings.rank, settings.search, settings.retrain
    networks = retrain.seeds + retrain.random_architectures
    examples = len(parts.train)
    example = step / train.batch_size
    planned = {
        "train": PlannedStage(
            "train",
            f"supernet of {settings.space.kind}, {train.strategy}, {train.epochs} epochs of {examples} examples",
            example * examples * train.epochs,
        ),
        "rank": PlannedStage(
            "rank",
            f"{rank.architectures} random architectures by {', '.join(rank.estimators)}",
            start + rank_score * rank.architectures / workers,
        ),
        "search": PlannedStage(
            "search",
            f"{search.budget} architectures by {search.sampler} on {', '.join(search.objectives)}",
            search.budget * search_score / workers,
        ),
        "retrain": PlannedStage(
            "retrain",
            f"{retrain.seeds} x the best and {retrain.random_architectures} random ones, {retrain.epochs} epochs",
            start + networks * examples * retrain.epochs * example / workers,
        ),
    }
    return [planned[stage] for stage in (*stages, *(["retrain"] if "search" in stages else []))]


def _step_seconds(context: Context) -> float:
    """The mean time of a training step on copies of supernet and optimiser."""
    parts = replace(context.parts, net=copy.deepcopy(context.parts.net))
    strategy, _ = parts.strategy()
    source = parts.batches(parts.train, parts.settings.train.batch_size, stream="train")
    batches = list(islice(source.epoch(0), WARM_UP_STEPS))
    strategy.step(batches[:1], generator=generator_at(0, "plan", 0))
    started = time.perf_counter()
    for index, batch in enumerate(batches):
        strategy.step([batch], generator=generator_at(0, "plan", index))
    return (time.perf_counter() - started) / len(batches)


def _score_seconds(context: Context, names: tuple[str, ...]) -> float:
    """The time of one score of one random architecture."""
    (architecture,) = context.draw(1, "plan")
    started = time.perf_counter()
    Scoring(context.parts.net, context.parts.estimators(names))(architecture)
    return time.perf_counter() - started


def in_words(seconds: float) -> str:
    """For people: '40 seconds', '12 minutes', '3.5 hours'."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} seconds"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"
