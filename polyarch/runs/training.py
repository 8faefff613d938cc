"""The first stage: training the supernet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from polyarch.runs.run import Context
from polyarch.runs.optimisers import schedule
from polyarch.runs.parts import Parts
from polyarch.runs.spaces import interchoice_of
from polyarch.results import TrainingRecord
from polyarch.strategies import PosteriorGuided, Strategy, Variational
from polyarch.training import (
    Callback,
    CheckpointStore,
    EarlyStopping,
    EpochLog,
    History,
    SplitWeights,
    StepProgress,
    StopRequest,
    TensorBoard,
    WithinLimits,
    fit,
)
from polyarch.training.within_limits import DESCENT


def train(context: Context) -> TrainingRecord:
    """Trains the supernet, or goes on with it."""
    with shown(context) as callbacks:
        strategy, history = fit_supernet(context.parts, context.workspace.store("train"), callbacks, context.stop)
    q = None
    if isinstance(strategy, Variational):
        q = {name: gate.detach().tolist() for name, gate in strategy.q.mean().items()}
    return TrainingRecord(strategy=context.parts.settings.train.strategy, history=history.rows, q=q)


@contextmanager
def shown(context: Context) -> Iterator[list[Callback]]:
    """What tells of a training while it goes on: the diary, a progress bar and, if asked for, TensorBoard."""
    with context.display.stage("train") as report, _tensorboard(context) as tensorboard:
        yield [
            EpochLog(lambda row: context.workspace.log("epoch", **row)),
            StepProgress(lambda done, total, metrics: report(done, total, _loss(metrics))),
            *tensorboard,
        ]


def fit_supernet(
    parts: Parts, store: CheckpointStore, callbacks: Sequence[Callback] = (), stop: StopRequest | None = None
) -> tuple[Strategy, History]:
    """Trains the supernet of these parts by their settings, from where the store has it.

    Args:
        callbacks: besides those that the settings ask for.
    """
    strategy, optimizer = parts.strategy()
    further = [
        *_stopping(parts, strategy),
        *_expectation_steps(parts, strategy),
        *_splitting(parts, optimizer),
        *_limiting(parts, strategy),
        *callbacks,
    ]
    return strategy, fit_strategy(parts, strategy, optimizer, store, further, stop)


def fit_strategy(
    parts: Parts,
    strategy: Strategy,
    optimizer: torch.optim.Optimizer,
    store: CheckpointStore,
    callbacks: Sequence[Callback],
    stop: StopRequest | None,
) -> History:
    """Trains by a strategy on the data and with the schedule of the settings."""
    settings = parts.settings
    return fit(
        strategy,
        parts.batches(parts.train, settings.train.batch_size, stream="train"),
        parts.evaluation_batches(parts.valid),
        epochs=settings.train.epochs,
        seed=settings.seed,
        held_out=parts.held_out_batches() if strategy.held_out_per_step else None,
        callbacks=[schedule(optimizer, settings.train), *callbacks],
        checkpoints=store,
        checkpoint_seconds=settings.checkpoint_seconds,
        stop=stop,
    )


def _stopping(parts: Parts, strategy: Strategy) -> list[Callback]:
    """Early stopping if the settings ask for it."""
    train = parts.settings.train
    if train.patience is None:
        return []
    # One full batch per epoch: what is maximised is known exactly, and validation examples are few.
    full = isinstance(strategy, Variational) and train.batch_size >= len(parts.train)
    warm_up = parts.depth_search().warm_up(train.epochs)
    if isinstance(strategy, PosteriorGuided) and parts.limits(measured=False).limits:
        warm_up = max(warm_up, math.ceil(DESCENT * train.epochs))  # what was better before may be too large
    watched = "loss" if full else "valid_loss"
    return [EarlyStopping(watched, maximise=False, patience=train.patience, after=warm_up)]


def _expectation_steps(parts: Parts, strategy: Strategy) -> Sequence[Callback]:
    """What sets q where no gradient does."""
    if not isinstance(strategy, Variational) or len(parts.net.space.choices) > 1:
        return []
    return parts.depth_search().expectation_steps(strategy, parts.statistics_batches(parts.train))


def _splitting(parts: Parts, optimizer: torch.optim.Optimizer) -> list[Callback]:
    """What splits the weights of the supernet if the settings ask for it."""
    interchoice = interchoice_of(parts.settings.space)
    if interchoice is None or interchoice.split_epoch is None:
        return []
    return [SplitWeights(parts.net, optimizer, epoch=interchoice.split_epoch)]


def _limiting(parts: Parts, strategy: Strategy) -> list[Callback]:
    """What keeps a posterior over channels within the limits while it is learned."""
    limits = parts.limits(measured=False)
    if not isinstance(strategy, PosteriorGuided) or not limits.limits:
        return []
    return [WithinLimits(strategy, limits, seed=parts.settings.seed)]


@contextmanager
def _tensorboard(context: Context) -> Iterator[list[Callback]]:
    """A TensorBoard callback if the settings ask for one."""
    if not context.parts.settings.tensorboard:
        yield []
        return
    with TensorBoard(context.workspace.folder / "tensorboard") as callback:
        yield [callback]


def _loss(metrics: Mapping[str, float]) -> str:
    return f"loss {metrics['loss']:.4f}" if metrics else ""
