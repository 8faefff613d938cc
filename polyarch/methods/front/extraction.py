"""One size of a finished run as an artifact of its own, as it is or trained further with the largest as its teacher."""

import copy
from pathlib import Path

from torch import nn

from polyarch.methods.front.record import FrontRecord
from polyarch.methods.front.training import ElasticTraining
from polyarch.randomness import derive_seed
from polyarch.results import PredictorRecord
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.judging import Ensemble
from polyarch.runs.plan import in_words
from polyarch.runs.recipe import optimiser
from polyarch.runs.retraining import evaluate
from polyarch.runs.run import Run
from polyarch.spaces import Architecture
from polyarch.strategies import Distilled
from polyarch.training import Laps, TimeBudget, TimeProgress, Trapezoid, WeightAverage, fit
from polyarch.training.laps import ENDLESS, LAP

TUNING_RATE = 0.2
"""The learning rate of further training, as a share of the peak: the weights are good already."""


def extract(run: Run, record: FrontRecord, index: int, folder: Path, minutes: float | None) -> PredictorRecord:
    """Writes the artifact of a size into a folder, calibrated on validation data, and says how good it is."""
    training = ElasticTraining(run)
    training.load()
    architecture = run.net.space.architecture(record.sizes[index].architecture)
    network = training.network(architecture)
    if minutes is not None:
        network = tuned(training, architecture, network, 60 * minutes)
    (found,) = write_predictors(run, [(Ensemble.of(f"size {index}", [(architecture, network)]), folder)])
    return found


def tuned(training: ElasticTraining, architecture: Architecture, network: nn.Module, seconds: float) -> nn.Module:
    """The network after so many real seconds with the largest as teacher; as it was, if that is better on validation.

    The learning rate falls from a fifth of the peak to zero; weights are averaged over the last part.
    """
    run, settings = training.run, training.settings
    student = copy.deepcopy(network)
    optimizer, average, budget = optimiser(student, settings), WeightAverage(student), TimeBudget(seconds)
    peak = TUNING_RATE * settings.learning_rate
    schedule = Trapezoid(optimizer, budget, peak=peak, warmup=settings.warmup, falls_after=0.0)
    with run.display.stage("tune") as report:
        shown = TimeProgress(budget, lambda done, total, metrics: report(done, total, ""))
        fit(
            Distilled(student, optimizer, task=run.task, teacher=training.network(training.sizes[-1])),
            Laps(training.batches(), LAP),
            epochs=ENDLESS,
            seed=derive_seed(run.settings.seed, "tune", architecture.key) >> 1,
            callbacks=[budget, schedule, average, shown],
            stop=run.stop,
        )
    after = average.average.eval()
    metric, valid = run.task.selection, run.feed.in_order(run.feed.valid)
    scores = {one: evaluate(run.task, one, valid)[metric.name] for one in (after, network)}
    chosen = metric.best([after, network], scores.__getitem__)
    run.display.say(
        f"Tuned for {in_words(seconds)}: validation {metric.title} {scores[network]:.4f} before, {scores[after]:.4f} "
        f"after; {'the tuned weights are' if chosen is after else 'the weights from before are'} kept."
    )
    return chosen
