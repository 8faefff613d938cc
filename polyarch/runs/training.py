"""Training the supernet of a run, with optimiser, learning rate and loss by settings."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from polyarch.distributions import ArchDistribution
from polyarch.nn.norm_policies import norm_layers
from polyarch.plugins import STRATEGIES
from polyarch.results import TrainingRecord
from polyarch.runs.divergence import naming_divergence
from polyarch.runs.run import Run
from polyarch.runs.sections import OptimiserSettings
from polyarch.runs.space_settings import interchoice_of
from polyarch.runs.tracking import loggers
from polyarch.strategies import Strategy
from polyarch.training import (
    Callback,
    CheckpointStore,
    EarlyStopping,
    EpochLog,
    History,
    Schedule,
    SplitWeights,
    StepProgress,
    StopRequest,
    cosine,
    fit,
)


def sgd(network: nn.Module, settings: OptimiserSettings) -> torch.optim.SGD:
    """SGD with momentum, all weights in one call: the same bits as one by one, in half the time on a processor.

    One group of weights, or a second one for batch normalisation if that does not decay.
    """
    return torch.optim.SGD(
        network.parameters() if settings.decay_norms else _without_decay_of_norms(network),
        lr=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        foreach=True,
    )


def _without_decay_of_norms(network: nn.Module) -> list[dict[str, Any]]:
    """All weights but those of batch normalisation, then these without decay, as groups of an optimiser."""
    norms = {parameter for layer in norm_layers(network) for parameter in layer.parameters(recurse=False)}
    others = [parameter for parameter in network.parameters() if parameter not in norms]
    kept = [parameter for parameter in network.parameters() if parameter in norms]
    return [{"params": others}, {"params": kept, "weight_decay": 0.0}]


def schedule(optimizer: torch.optim.Optimizer, settings: OptimiserSettings) -> Schedule:
    """The cosine schedule of these settings, after a linear increase over the first epochs."""

    def rate(step: int, total: int) -> float:
        warmup = round(settings.warmup_epochs / settings.epochs * total)
        return cosine(settings.learning_rate, settings.final_learning_rate, warmup=warmup)(step, total)

    return Schedule(optimizer, rate)


@dataclass(frozen=True)
class Training:
    """How a supernet is trained; a registered strategy is called with a run and returns one of these.

    Args:
        optimizer: follows the learning-rate schedule of the settings.
        callbacks: what happens along the way, beside the schedule.
        q: the distribution that is learned with the weights, if there is one.
    """

    strategy: Strategy
    optimizer: torch.optim.Optimizer
    callbacks: Sequence[Callback] = ()
    q: ArchDistribution | None = None


def named_training(run: Run) -> Training:
    """The training that ``train.strategy`` names."""
    training: Training = STRATEGIES[run.settings.train.strategy](run)
    return training


def train_supernet(run: Run) -> TrainingRecord:
    """Trains the supernet, or resumes its training."""
    with shown(run) as callbacks:
        training, history = fit_supernet(run, run.workspace.store("train"), callbacks, run.stop)
    q = None if training.q is None else {name: gate.detach().tolist() for name, gate in training.q.mean().items()}
    return TrainingRecord(strategy=run.settings.train.strategy, history=history.rows, q=q)


def fit_supernet(
    run: Run, store: CheckpointStore, callbacks: Sequence[Callback] = (), stop: StopRequest | None = None
) -> tuple[Training, History]:
    """Trains the supernet as its method does, from the last checkpoint in the store.

    Args:
        callbacks: besides those of the training.
    """
    training = run.method.training(run)
    return training, fit_training(run, training, store, callbacks, stop)


def fit_training(
    run: Run, training: Training, store: CheckpointStore, callbacks: Sequence[Callback], stop: StopRequest | None
) -> History:
    """Trains on the data and with the schedule of the settings."""
    settings, strategy = run.settings, training.strategy
    with naming_divergence("train.learning_rate", settings.train.learning_rate):
        return fit(
            strategy,
            run.feed.training_batches(settings.train.batch_size),
            run.feed.in_order(run.feed.valid),
            epochs=settings.train.epochs,
            seed=settings.seed,
            held_out=run.feed.held_out_batches(settings.train.batch_size) if strategy.held_out_per_step else None,
            callbacks=[schedule(training.optimizer, settings.train), *training.callbacks, *callbacks],
            checkpoints=store,
            checkpoint_seconds=settings.checkpoint_seconds,
            stop=stop,
        )


def early_stopping(run: Run, watched: str = "valid_loss", *, after: int = 0) -> list[Callback]:
    """Early stopping if ``train.patience`` asks for it; no state of the epochs before ``after`` is kept."""
    patience = run.settings.train.patience
    return [] if patience is None else [EarlyStopping(watched, maximise=False, patience=patience, after=after)]


def weight_splitting(run: Run, optimizer: torch.optim.Optimizer) -> list[Callback]:
    """Splits inter-choice weights of the supernet if the space asks for it."""
    interchoice = interchoice_of(run.settings.space)
    if interchoice is None or interchoice.split_epoch is None:
        return []
    return [SplitWeights(run.net, optimizer, epoch=interchoice.split_epoch)]


@contextmanager
def shown(run: Run) -> Iterator[list[Callback]]:
    """Callbacks that report a training: the log, a progress bar, other tools if asked for, and the user's own."""
    with run.display.stage("train") as report, loggers(run) as others:
        yield [
            EpochLog(lambda row: run.workspace.log("epoch", **row)),
            StepProgress(lambda done, total, metrics: report(done, total, loss_in_words(metrics))),
            *others,
            *run.callbacks,
        ]


def loss_in_words(metrics: Mapping[str, float]) -> str:
    """The note of a progress bar; nothing before the first step."""
    return f"loss {metrics['loss']:.4f}" if metrics else ""
