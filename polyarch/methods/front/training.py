"""Training the elastic network for all its sizes at once, and taking a size out of it."""

import statistics
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from torch import nn

from polyarch.data import Batches, endless
from polyarch.errors import ConfigError
from polyarch.export import read_weights, weights_bytes, weights_of
from polyarch.files import write_atomically
from polyarch.methods.front.settings import FrontSettings
from polyarch.methods.front.sizes import end_seconds, sizes_of, step_seconds
from polyarch.nn import ReestimatedStatistics
from polyarch.runs.busy_time import seconds_before
from polyarch.runs.display import Report
from polyarch.runs.divergence import naming_divergence
from polyarch.runs.image_augmentation import augmentations, crop_side, usual_augmentation
from polyarch.runs.recipe import optimiser, time_budget
from polyarch.runs.retraining import evaluate
from polyarch.runs.run import Run
from polyarch.runs.training import loss_in_words
from polyarch.spaces import Architecture
from polyarch.strategies import Sandwich, SandwichPaths
from polyarch.supernets import Supernet
from polyarch.training import BestAverage, EpochLog, History, Laps, TimeProgress, Trapezoid, WeightAverage, fit
from polyarch.training.laps import ENDLESS, LAP

AT_ONCE = 1e-9
"""Seconds that every training has used up already."""

WATCHED_LAPS = 4
"""Between two looks at the validation loss, at least."""


@dataclass(frozen=True)
class ElasticTraining:
    """Trains the elastic network of a run by the sandwich rule, and keeps its averaged weights.

    The learning rate stays at its peak, on cropped images, and falls to zero over the last part of the time.
    """

    run: Run

    @property
    def settings(self) -> FrontSettings:
        """How it is trained."""
        return self.run.settings.section(FrontSettings)

    @cached_property
    def sizes(self) -> list[Architecture]:
        """All sizes, the smallest first."""
        return sizes_of(self.run)

    @property
    def weights_path(self) -> Path:
        """Where the averaged weights are, in safetensors format."""
        return self.run.workspace.checkpoints / "train" / "weights.safetensors"

    def train(self) -> History:
        """Trains up to the end of the time, from where it was; leaves the averaged weights in the run's network."""
        seconds = self._seconds()
        turn = seconds * (1 - self.settings.falling)
        rate = self.settings.learning_rate
        with self.run.display.stage("train") as report, naming_divergence("front.learning_rate", rate):
            self._leg(turn, seconds, None, report)
            history, averaged = self._leg(seconds, seconds, turn, report)
        write_atomically(self.weights_path, weights_bytes(weights_of(averaged)))
        self.load()
        return history

    def load(self) -> None:
        """Gives the run's network the averaged weights."""
        self.run.net.load_state_dict(read_weights(self.weights_path))

    def network(self, architecture: Architecture, net: Supernet | None = None) -> nn.Module:
        """A size with the weights it inherits and statistics of its own, in evaluation mode.

        Args:
            net: with other weights than the run's network.
        """
        network = (net or self.run.net).extract(architecture)
        batches = self.batches()
        policy = ReestimatedStatistics(min(self.settings.statistics, len(batches)))
        policy.prepare(network, (batch.inputs for batch in endless(batches)))
        return network

    def batches(self, crop: int | None = None) -> Batches:
        """Shuffled training batches of augmented examples."""
        feed = self.run.feed
        changes = augmentations(usual_augmentation(self.run), feed.data.input_shape, crop) if feed.data.is_image else []
        return replace(feed, augmentations=changes).batches(feed.train, self.settings.batch_size, stream="front")

    def _leg(
        self, until: float, seconds: float, falls_after: float | None, report: Report
    ) -> tuple[History, nn.Module]:
        """Trains up to so many of the seconds; what happened, and the averaged network."""
        run, settings, net = self.run, self.settings, self.run.net
        crop = crop_side(run, settings.crop) if falls_after is None else None
        optimizer = optimiser(net, settings)
        average = WeightAverage(net)
        budget = time_budget(until, settings, step_seconds(run, self.sizes, crop))
        schedule = Trapezoid(
            optimizer, budget, peak=settings.learning_rate, warmup=settings.warmup, falls_after=falls_after
        )
        batches = self.batches(crop)
        best = BestAverage(average, self._valid_loss, every=max(len(batches) // LAP, WATCHED_LAPS))
        watched = [] if run.feed.data.is_image else [best]  # rows of tables are learned by heart in no time
        shown = TimeProgress(budget, lambda done, _, metrics: report(done, round(seconds), loss_in_words(metrics)))
        log = EpochLog(lambda row: run.workspace.log("lap", **row))
        history = fit(
            Sandwich(
                net,
                optimizer,
                paths=SandwichPaths(self.sizes, settings.between),
                share=settings.teacher,
                task=run.task.smoothed(settings.label_smoothing),
            ),
            Laps(batches, LAP),
            epochs=ENDLESS,
            seed=run.settings.seed,
            callbacks=[budget, schedule, average, *watched, shown, log, *run.callbacks],
            checkpoints=run.workspace.store("train"),
            checkpoint_seconds=run.settings.checkpoint_seconds,
            stop=run.stop,
            further=True,
        )
        return history, best.best()

    def _valid_loss(self, net: nn.Module) -> float:
        """The mean over the smallest, a middle and the largest size."""
        assert isinstance(net, Supernet)
        some = dict.fromkeys([self.sizes[0], self.sizes[len(self.sizes) // 2], self.sizes[-1]])
        valid = self.run.feed.in_order(self.run.feed.valid)
        return statistics.fmean(evaluate(self.run.task, self.network(one, net), valid)["loss"] for one in some)

    def _seconds(self) -> float:
        """What training may take in all: as planned or, with a limit on the minutes, what is left of them."""
        run, planned = self.run, self.settings.seconds
        assert planned is not None
        if run.finish_now:
            if run.workspace.store("train").load() is None:
                raise ConfigError("Expected a training that has begun. Found none; go on with --resume.")
            return AT_ONCE
        if self.settings.clock != "real":
            return planned
        journal = run.workspace.journal("seconds")
        if not journal.records:
            left = seconds_before(run, end_seconds(run, self.sizes))
            journal.append({"seconds": max(min(planned, left), 1.0)})
        return float(journal.records[0]["seconds"])
