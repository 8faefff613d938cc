"""Training a candidate up to a number of seconds, from where it was, as a task for executors."""

import hashlib
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from polyarch.export import read_weights, weights_bytes, weights_of
from polyarch.files import write_atomically
from polyarch.methods.race.candidates import Candidate
from polyarch.methods.race.settings import RaceSettings
from polyarch.nn.member_layers import member_network
from polyarch.randomness import derive_seed
from polyarch.runs.divergence import naming_divergence
from polyarch.runs.feed import Feed
from polyarch.runs.folds import fold_feed
from polyarch.runs.image_augmentation import augmentations, crop_side
from polyarch.runs.recipe import optimiser, time_budget
from polyarch.runs.retraining import evaluate, outputs
from polyarch.runs.run import Run
from polyarch.runs.work import work_seconds
from polyarch.spaces import Architecture
from polyarch.strategies import Supervised
from polyarch.training import BestAverage, CheckpointStore, Laps, Row, TimeBudget, Trapezoid, WeightAverage, fit
from polyarch.training.laps import ENDLESS, LAP, thinned

PATIENCE = 16
"""Measurements without a better one after which a training on a table ends; one is a pass over the data, or a lap."""


@dataclass(frozen=True)
class Leg:
    """A part of a candidate's training: up to so many seconds in all.

    Args:
        falls_after: in the last leg, the seconds after which the learning rate falls: those of the leg before.
        steps: trains so many, whatever time they take, and does not look at validation examples.
    """

    candidate: Candidate
    seconds: float
    falls_after: float | None = None
    steps: int | None = None


@dataclass(frozen=True)
class CandidateTraining:
    """Trains a candidate for a leg and measures its averaged weights on validation data; goes on after a kill.

    Args:
        folder: where candidates have theirs.
        folds: the rows that each part of the examples holds out, where candidates are validated by several.
    """

    run: Run
    folder: Path
    folds: Sequence[Tensor] = ()

    def __call__(self, leg: Leg) -> dict[str, Any]:
        """What the candidate is like after the leg; its averaged weights are in `weights_path`."""
        rate = self.settings.learning_rate if leg.candidate.recipe is None else leg.candidate.recipe.learning_rate
        with naming_divergence("race.learning_rate", rate, leg.candidate.architecture):
            return self._trained(leg)

    def _trained(self, leg: Leg) -> dict[str, Any]:
        run, settings, candidate = self.run, self.settings, leg.candidate
        network = self.fresh(candidate)
        if candidate.recipe is not None:
            settings = settings.model_copy(update=asdict(candidate.recipe))
        optimizer = optimiser(network, settings)
        average = WeightAverage(network)
        crop = crop_side(run, settings.crop) if leg.falls_after is None else None
        step_seconds = work_seconds(run, candidate.architecture, settings.batch_size, crop)
        budget = (
            time_budget(leg.seconds, settings, step_seconds)
            if leg.steps is None
            else TimeBudget(leg.steps * step_seconds, step_seconds)
        )
        schedule = Trapezoid(
            optimizer, budget, peak=settings.learning_rate, warmup=settings.warmup, falls_after=leg.falls_after
        )
        changes = augmentations(candidate.augmentation, run.feed.data.input_shape, crop)
        feed = replace(self.feed(candidate), augmentations=changes)
        batches = feed.batches(feed.train, settings.batch_size, stream=f"race {candidate.key}")
        patience = None if candidate.recipe is None else PATIENCE
        best = BestAverage(
            average, partial(self._valid_loss, feed), every=max(len(batches) // LAP, 1), patience=patience
        )
        # Rows of tables are learned by heart in no time.
        watched = [] if run.feed.data.is_image or leg.steps is not None else [best]
        history = fit(
            Supervised(member_network(network), optimizer, task=run.task.smoothed(settings.label_smoothing)),
            Laps(batches, LAP),
            epochs=ENDLESS,
            seed=self._seed(candidate),
            callbacks=[budget, schedule, average, *watched],
            checkpoints=CheckpointStore(self.folder_of(candidate)),
            checkpoint_seconds=run.settings.checkpoint_seconds,
            further=True,
        )
        averaged = best.best()
        write_atomically(self.weights_path(candidate), weights_bytes(weights_of(averaged)))
        measured = evaluate(run.task, averaged, feed.in_order(feed.valid))
        rows = history.rows or [
            {"step": 0, "seconds": budget.used, "loss": measured["loss"]}
        ]  # stopped in its first lap
        return {
            "parameters": run.net.parameter_count(candidate.architecture),
            "steps": int(rows[-1]["step"]),
            "seconds": round(rows[-1]["seconds"], 3),
            "training_loss": training_loss(rows),
            "expected_loss": expected_loss(rows, settings.seconds or leg.seconds),
            "valid_loss": measured["loss"],
            "valid_score": measured[run.task.selection.name],
            "best_steps": best.lowest_after,
            "has_stopped": best.has_stopped,
            "curve": thinned(rows),
        }

    @property
    def settings(self) -> RaceSettings:
        """How networks race."""
        return self.run.settings.section(RaceSettings)

    def feed(self, candidate: Candidate) -> Feed:
        """The examples that train and validate a candidate."""
        return fold_feed(self.run.feed, self.folds, candidate.fold)

    def fresh(self, candidate: Candidate) -> nn.Module:
        """A candidate with fresh weights."""
        return self.run.networks.fresh(candidate.architecture, seed=self._seed(candidate))

    def _seed(self, candidate: Candidate) -> int:
        return derive_seed(self.run.settings.seed, "race", candidate.key) >> 1

    def _valid_loss(self, feed: Feed, network: nn.Module) -> float:
        found, targets = outputs(network, feed.in_order(feed.valid))
        return self.run.task.measure(found[None], targets, names=["loss"])["loss"]

    def has_begun(self, candidate: Candidate) -> bool:
        """Whether there is a checkpoint to go on from."""
        return CheckpointStore(self.folder_of(candidate)).load() is not None

    def network(self, candidate: Candidate, architecture: Architecture | None = None) -> nn.Module:
        """A candidate with its averaged weights, in evaluation mode.

        Args:
            architecture: another one that has the same weights.
        """
        network = self.run.networks.fresh(architecture or candidate.architecture, seed=0)
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
