"""Training a candidate up to a number of seconds, from where it was, as a task for executors."""

import hashlib
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from polyarch.export import read_weights, weights_bytes, weights_of
from polyarch.files import write_atomically
from polyarch.methods.race.candidates import Candidate, augmentations, crop_of, work_seconds
from polyarch.methods.race.settings import RaceSettings
from polyarch.nn.member_layers import member_network
from polyarch.randomness import derive_seed
from polyarch.runs.retraining import evaluate
from polyarch.runs.run import Run
from polyarch.strategies import Supervised
from polyarch.training import BestAverage, CheckpointStore, Laps, Row, TimeBudget, Trapezoid, WeightAverage, fit

LAP = 16
"""Steps between two looks at the clock."""
ENDLESS = 10**8
"""More laps than any budget has time for."""
CURVE_POINTS = 60
PATIENCE = 16
"""Measurements without a better one after which a training on a table ends; one is a pass over the data, or a lap."""


@dataclass(frozen=True)
class Leg:
    """A part of a candidate's training: up to so many seconds in all.

    Args:
        falls_after: in the last leg, the seconds after which the learning rate falls: those of the leg before.
    """

    candidate: Candidate
    seconds: float
    falls_after: float | None = None


@dataclass(frozen=True)
class CandidateTraining:
    """Trains a candidate for a leg and measures its averaged weights on validation data; goes on after a kill."""

    run: Run
    folder: Path

    def __call__(self, leg: Leg) -> dict[str, Any]:
        """What the candidate is like after the leg; its averaged weights are in `weights_path`."""
        run, settings, candidate = self.run, self.run.settings.section(RaceSettings), leg.candidate
        seed = derive_seed(run.settings.seed, "race", candidate.key) >> 1
        network = run.networks.fresh(candidate.architecture, seed=seed)
        if candidate.recipe is not None:
            settings = settings.model_copy(update=asdict(candidate.recipe))
        optimizer = optimiser(network, settings)
        average = WeightAverage(network)
        crop = crop_of(run) if leg.falls_after is None else None
        step_seconds = work_seconds(run, candidate.architecture, crop) if settings.clock == "work" else None
        passing = time.process_time_ns if settings.clock == "processor" else time.monotonic_ns
        budget = TimeBudget(leg.seconds, step_seconds, passing)
        schedule = Trapezoid(
            optimizer, budget, peak=settings.learning_rate, warmup=settings.warmup, falls_after=leg.falls_after
        )
        changes = augmentations(candidate.augmentation, run.feed.data.input_shape, crop)
        feed = replace(run.feed, augmentations=changes)
        batches = feed.batches(feed.train, settings.batch_size, stream=f"race {candidate.key}")
        patience = None if candidate.recipe is None else PATIENCE
        best = BestAverage(average, self._valid_loss, every=max(len(batches) // LAP, 1), patience=patience)
        watched = [] if run.feed.data.is_image else [best]  # rows of tables are learned by heart in no time
        history = fit(
            Supervised(member_network(network), optimizer, task=run.task.smoothed(settings.label_smoothing)),
            Laps(batches, LAP),
            epochs=ENDLESS,
            seed=seed,
            callbacks=[budget, schedule, average, *watched],
            checkpoints=CheckpointStore(self.folder_of(candidate)),
            checkpoint_seconds=run.settings.checkpoint_seconds,
            further=True,
        )
        averaged = best.best()
        write_atomically(self.weights_path(candidate), weights_bytes(weights_of(averaged)))
        measured = evaluate(run.task, averaged, run.feed.in_order(run.feed.valid))
        rows = history.rows or [
            {"step": 0, "seconds": budget.used, "loss": measured["loss"]}
        ]  # stopped in its first lap
        return {
            "steps": int(rows[-1]["step"]),
            "seconds": round(rows[-1]["seconds"], 3),
            "training_loss": training_loss(rows),
            "expected_loss": expected_loss(rows, settings.seconds or leg.seconds),
            "valid_loss": measured["loss"],
            "valid_score": measured[run.task.selection.name],
            "has_stopped": best.has_stopped,
            "curve": _thinned(rows),
        }

    def _valid_loss(self, network: nn.Module) -> float:
        return evaluate(self.run.task, network, self.run.feed.in_order(self.run.feed.valid))["loss"]

    def has_begun(self, candidate: Candidate) -> bool:
        """Whether there is a checkpoint to go on from."""
        return CheckpointStore(self.folder_of(candidate)).load() is not None

    def network(self, candidate: Candidate) -> nn.Module:
        """A candidate with its averaged weights, in evaluation mode."""
        network = self.run.networks.fresh(candidate.architecture, seed=0)
        network.load_state_dict(read_weights(self.weights_path(candidate)))
        return network.eval()

    def weights_path(self, candidate: Candidate) -> Path:
        """Where a candidate leaves its averaged weights, in safetensors format."""
        return self.folder_of(candidate) / "weights.safetensors"

    def folder_of(self, candidate: Candidate) -> Path:
        """Where a candidate keeps its checkpoints."""
        return self.folder / hashlib.sha256(candidate.key.encode()).hexdigest()[:16]


def training_loss(rows: Sequence[Row]) -> float:
    """The mean over the second half of the laps: the last part of the sum of training losses, per step."""
    return statistics.fmean(row["loss"] for row in rows[len(rows) // 2 :])


STEEPEST = 1.0
"""Losses do not fall faster than the inverse of the time for long."""


def expected_loss(rows: Sequence[Row], seconds: float) -> float:
    """What the training loss will be after so many seconds, if it goes on to fall as a power of the time.

    log L = c - s log t, fitted by least squares to the second half of the laps, with 0 <= s <= 1. Networks that are
    compared after the same short time differ in how far they are from their end: large ones still fall faster.
    Densities of numbers have losses below 0, which fall as no power: there it is the training loss of now.
    """
    later = rows[len(rows) // 2 :]
    if min(row["loss"] for row in later) <= 0:
        return training_loss(rows)
    times = [math.log(row["seconds"]) for row in later]
    losses = [math.log(row["loss"]) for row in later]
    middle, level = statistics.fmean(times), statistics.fmean(losses)
    spread = sum((one - middle) ** 2 for one in times)
    slope = (
        sum((one - middle) * (other - level) for one, other in zip(times, losses, strict=True)) / spread
        if spread
        else 0.0
    )
    return math.exp(level + max(min(slope, 0.0), -STEEPEST) * (math.log(seconds) - middle))


def optimiser(network: nn.Module, settings: RaceSettings) -> torch.optim.Optimizer:
    """Nesterov's SGD or AdamW; biases, normalisation layers and the scales of members do not decay."""
    weights: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in network.named_parameters():
        decays = parameter.dim() > 1 and not name.endswith((".bias", "_scales"))
        (weights if decays else others).append(parameter)
    groups = [{"params": weights, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    if settings.optimiser == "adamw":
        return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(settings.momentum, 0.999), foreach=True)
    return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=settings.momentum, nesterov=True, foreach=True)


def _thinned(rows: Sequence[Row]) -> list[dict[str, float]]:
    """Up to 60 points of the training loss over time."""
    size = max(-(-len(rows) // CURVE_POINTS), 1)
    parts = [rows[first : first + size] for first in range(0, len(rows), size)]
    return [
        {"seconds": round(part[-1]["seconds"], 2), "loss": statistics.fmean(row["loss"] for row in part)}
        for part in parts
    ]
