"""Training an extracted architecture from scratch, as a task for executors."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.data import BatchSource
from polyarch.errors import NotFiniteError
from polyarch.export import read_weights, weights_bytes, weights_of
from polyarch.files import write_atomically
from polyarch.nn.drop_path import DropPath
from polyarch.randomness import derive_seed
from polyarch.results import CalibrationRecord, NetworkRecord, ResampledRecord
from polyarch.runs.divergence import naming_divergence
from polyarch.runs.evaluation import evaluation_of
from polyarch.runs.feed import Feed
from polyarch.runs.plan import EXPORT_SECONDS
from polyarch.runs.run import Run
from polyarch.runs.training import schedule, sgd
from polyarch.runs.workspace import run_missing
from polyarch.spaces import Architecture
from polyarch.strategies import Distilled, Supervised, SupervisedWithAuxiliary
from polyarch.tasks import Task
from polyarch.training import Callback, CheckpointStore, DropoutSchedule, History, fit

TrainingItem = tuple[Architecture, int]
"""An architecture and a seed."""


@dataclass(frozen=True)
class Retraining:
    """Trains one (architecture, seed) and tests it; writes its weights and goes on after a kill.

    Args:
        inherited: whether it starts from the weights of the supernet instead of fresh ones.
        teacher: an architecture that is distilled, with the weights of the supernet.
    """

    run: Run
    folder: Path
    inherited: bool = False
    teacher: Architecture | None = None

    def __call__(self, item: TrainingItem) -> dict[str, Any]:
        """Test and validation results; the weights are in `weights_path`."""
        with naming_divergence("retrain.learning_rate", self.run.settings.retrain.learning_rate, item[0]):
            network, history = self.train(item)
            measured = tested(self.run, network)
        path = self.weights_path(item)
        write_atomically(path, weights_bytes(weights_of(network)))
        return {**measured, "history": [{"epoch": row["epoch"], "loss": row["loss"]} for row in history.rows]}

    def train(
        self, item: TrainingItem, valid: BatchSource | None = None, callbacks: Sequence[Callback] = ()
    ) -> tuple[nn.Module, History]:
        """The network in evaluation mode and what was measured on the way.

        Args:
            valid: judged after every epoch; the weights are the same bits with and without it.
            callbacks: besides the schedule of the learning rate.
        """
        architecture, seed = item
        run, settings = self.run, self.run.settings
        position = derive_seed(settings.seed, "retrain", architecture.key, seed) >> 1
        strategy, course = self.strategy(architecture, position)
        feed = retraining_feed(run)
        history = fit(
            strategy,
            feed.batches(feed.train, settings.retrain.batch_size, stream=f"retrain {seed}"),
            valid,
            epochs=settings.retrain.epochs,
            seed=position,
            callbacks=[schedule(strategy.optimizer, settings.retrain), *course, *callbacks],
            checkpoints=CheckpointStore(self.checkpoint_folder(item)),
            checkpoint_seconds=settings.checkpoint_seconds,
        )
        return strategy.network.eval(), history

    def strategy(self, architecture: Architecture, seed: int) -> tuple[Supervised, list[Callback]]:
        """How the network is trained, and what changes along the way."""
        run, settings = self.run, self.run.settings.retrain
        task, evaluation = run.task.smoothed(settings.label_smoothing), evaluation_of(run.settings.space)
        if self.inherited or evaluation is None:
            network = run.net.extract(architecture) if self.inherited else run.networks.fresh(architecture, seed=seed)
            optimizer, clip = sgd(network, settings), settings.clip or None
            if self.teacher is None:
                return Supervised(network, optimizer, task=task, clip=clip), []
            teacher = run.net.extract(self.teacher).eval()
            return Distilled(network, optimizer, task=task, clip=clip, teacher=teacher), []
        network, taught = run.networks.taught(architecture, seed=seed)
        layers = [layer for layer in taught.modules() if isinstance(layer, DropPath)]
        most = evaluation.drop_path
        strategy = SupervisedWithAuxiliary(
            network, sgd(taught, settings), taught, evaluation.auxiliary, task=task, clip=settings.clip or None
        )
        return strategy, [DropoutSchedule(layers, lambda share: most * share)]

    def checkpoint_folder(self, item: TrainingItem) -> Path:
        """Where one item keeps its checkpoints."""
        architecture, seed = item
        name = hashlib.sha256(architecture.key.encode()).hexdigest()[:16]
        return self.folder / f"{name}-{seed}"

    def weights_path(self, item: TrainingItem) -> Path:
        """Where one item leaves its weights, in safetensors format."""
        return self.checkpoint_folder(item) / "weights.safetensors"


def train_all(
    run: Run, items: Sequence[TrainingItem], task: Retraining, *, stage: str = "retrain"
) -> dict[TrainingItem, NetworkRecord]:
    """Trains every item that is not in the journal of the stage, as far as the time goes; the first always."""
    keyed = {f"{architecture.key} seed {seed}": (architecture, seed) for architecture, seed in items}
    with run.display.stage(stage) as report, run.stop.at_once(), run.executor().open(task) as retrain:
        records = run_missing(
            keyed,
            run.workspace.journal(stage),
            retrain,
            dict,
            report,
            wave=run.settings.workers,
            seconds_left=lambda: run.seconds_left() - EXPORT_SECONDS,
        )
    if len(records) < len(keyed):
        run.workspace.log("out of time", trained=len(records), planned=len(keyed))
    return {
        item: NetworkRecord(architecture=item[0].to_dict(), seed=item[1], **_renamed(records[key]))
        for key, item in keyed.items()
        if key in records
    }


def retraining_feed(run: Run) -> Feed:
    """The examples that networks are trained on alone, with the cutout of ``retrain`` if it has one."""
    data, cutout = run.settings.data, run.settings.retrain.cutout
    if cutout is None:
        return run.feed
    feed = run.feed.with_settings(data, data.model_copy(update={"cutout": cutout}))
    assert feed is not None  # only the augmentation differs
    return feed


def _renamed(record: dict[str, Any]) -> dict[str, Any]:
    """A record of the journal; those of polyarch 0.8 and earlier call scores accuracies."""
    if "accuracy" not in record:
        return record
    metrics = {name: record[name] for name in ("loss", "accuracy", "calibration_error")}
    scores = {"score": record["accuracy"], "valid_score": record["valid_accuracy"]}
    return {**scores, "loss": record["loss"], "metrics": metrics, "history": record["history"]}


def trained_network(task: Retraining, item: TrainingItem) -> nn.Module:
    """What the task trained, in evaluation mode."""
    network = task.run.networks.fresh(item[0], seed=0)
    network.load_state_dict(read_weights(task.weights_path(item)))
    return network.eval()


def evaluate(task: Task, network: nn.Module, batches: BatchSource) -> dict[str, float]:
    """The loss and all metrics of a network in evaluation mode."""
    found, targets = outputs(network, batches)
    return task.measure(found[None], targets)


def tested(run: Run, network: nn.Module) -> dict[str, Any]:
    """Score, loss, metrics and their noise on test examples, and the score on validation examples."""
    test = _as_member(outputs(network, run.feed.in_order(run.feed.data.test)))
    found, noise = run.task.measure(*test), CalibrationRecord.of(run.task, *test, torch.ones(1))
    resampled = ResampledRecord.of(run.task, *test)
    valid = run.task.scores(*_as_member(outputs(network, run.feed.in_order(run.feed.valid))))
    name = run.task.selection.name
    return {
        "score": found[name],
        "loss": found["loss"],
        "valid_score": valid[name],
        "metrics": found,
        "calibration": noise and noise.model_dump(),
        "resampled": resampled.model_dump(),
    }


def _as_member(found: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return found[0][None], found[1]


def outputs(network: Callable[[Any], Tensor], batches: BatchSource) -> tuple[Tensor, Tensor]:
    """Outputs (N, O), or (K, N, O) of K members, in float64 and targets (N, ...) of all examples, on the CPU."""
    with torch.no_grad():
        pairs = [(network(batch.inputs).cpu().double(), batch.targets.cpu()) for batch in batches.epoch(0)]
    found = torch.cat([found for found, _ in pairs], dim=-2)
    if not found.isfinite().all():
        raise NotFiniteError("Expected finite outputs of a network. Got NaN or infinity; try a lower learning rate.")
    return found, torch.cat([targets for _, targets in pairs])
