"""The first stage: training the supernet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from polyarch.jobs.context import Context
from polyarch.jobs.parts import schedule
from polyarch.results import TrainingRecord
from polyarch.strategies import Variational
from polyarch.training import Callback, EpochLog, StepProgress, TensorBoard, fit


def train(context: Context) -> TrainingRecord:
    """Trains the supernet, or goes on with it."""
    parts, settings = context.parts, context.parts.settings
    strategy, optimizer = parts.strategy()
    with context.display.stage("train") as report, _tensorboard(context) as tensorboard:
        history = fit(
            strategy,
            parts.batches(parts.train, settings.train.batch_size, stream="train"),
            parts.evaluation_batches(parts.valid),
            epochs=settings.train.epochs,
            seed=settings.seed,
            callbacks=[
                schedule(optimizer, settings.train),
                EpochLog(lambda row: context.workspace.log("epoch", **row)),
                StepProgress(lambda done, total, metrics: report(done, total, _loss(metrics))),
                *tensorboard,
            ],
            checkpoints=context.workspace.store("train"),
            checkpoint_seconds=settings.checkpoint_seconds,
            stop=context.stop,
        )
    q = None
    if isinstance(strategy, Variational):
        q = {name: gate.detach().tolist() for name, gate in strategy.q.mean().items()}
    return TrainingRecord(strategy=settings.train.strategy, history=history.rows, q=q)


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
