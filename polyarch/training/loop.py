"""The training loop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch

from polyarch.data import BatchSource, endless
from polyarch.errors import InvalidInput
from polyarch.randomness import derive_seed, generator_at, seed_global
from polyarch.strategies import Strategy
from polyarch.training.callbacks import Callback, Row, Run
from polyarch.training.checkpoint import CheckpointStore
from polyarch.training.interruption import StopRequest


@dataclass
class History:
    """What was measured: one row per epoch."""

    rows: list[Row] = field(default_factory=list)

    def __getitem__(self, name: str) -> list[float]:
        return [row[name] for row in self.rows]

    @property
    def last(self) -> Row:
        """The last epoch's row."""
        return self.rows[-1]


@dataclass
class _Epoch:
    """Sums of the metrics of the epoch that is under way; kept in checkpoints."""

    totals: dict[str, float] = field(default_factory=dict)

    def add(self, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self.totals[name] = self.totals.get(name, 0.0) + value


def fit(
    strategy: Strategy,
    train: BatchSource,
    valid: BatchSource | None = None,
    *,
    epochs: int,
    seed: int,
    held_out: BatchSource | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoints: CheckpointStore | None = None,
    checkpoint_seconds: float = 30.0,
    stop: StopRequest | None = None,
) -> History:
    """Trains for a number of epochs and returns what was measured.

    All randomness is derived from (seed, step): a run that is stopped and resumed ends with the same bits as one
    that never stopped.

    Args:
        valid: judged by ``strategy.evaluate`` after every epoch, as ``valid_loss`` and ``valid_accuracy``.
        held_out: for strategies whose steps look at held-out data; one epoch of it after another.
        checkpoints: where to keep the state; if it already holds one, training goes on from there.
        checkpoint_seconds: a checkpoint is written when this much time has passed since the last one.
        stop: checked after every step; when asked, the state is saved and `Interrupted` raised.
    """
    steps_per_epoch = len(train) // strategy.batches_per_step
    if epochs < 1 or steps_per_epoch < 1:
        raise InvalidInput(
            f"Expected 1 or more epochs and {strategy.batches_per_step} or more batches. "
            f"Got {epochs} epochs of {len(train)} batches."
        )
    if strategy.held_out_per_step and held_out is None:
        raise InvalidInput(f"Expected held-out data for {type(strategy).__name__}. Got none.")
    run = Run(strategy, epochs=epochs, steps_per_epoch=steps_per_epoch)
    history, current = History(), _Epoch()
    state = checkpoints.load() if checkpoints else None
    if state:
        _restore(state, run, history, current, callbacks)
        if state["finished"]:
            return history

    def save(*, finished: bool) -> None:
        if checkpoints:
            checkpoints.save(run.step, _snapshot(run, history, current, callbacks, finished=finished))

    saved_at = time.monotonic()
    # Dropout and the like draw from torch's global generator: it is seeded at every step, and put back at the end.
    with torch.random.fork_rng():
        for callback in callbacks:
            callback.on_start(run)
        while run.step < run.total_steps and not run.should_stop:
            first = (run.step % steps_per_epoch) * strategy.batches_per_step
            batches = train.epoch(run.epoch, start=first)
            others = endless(held_out, start=run.step * strategy.held_out_per_step) if held_out else iter(())
            while True:
                for callback in callbacks:
                    callback.on_step_start(run)
                group = list(islice(batches, strategy.batches_per_step))
                seed_global(derive_seed(seed, "global", run.step))
                aside = list(islice(others, strategy.held_out_per_step))
                metrics = strategy.step(group, aside, generator=generator_at(seed, "step", run.step))
                run.step += 1
                current.add(metrics)
                for callback in callbacks:
                    callback.on_step_end(run, metrics)
                ended = run.step % steps_per_epoch == 0
                if ended:
                    _end_epoch(run, history, current, valid, seed, callbacks)
                asked = stop is not None and stop.asked
                if asked or time.monotonic() - saved_at >= checkpoint_seconds:
                    save(finished=False)
                    saved_at = time.monotonic()
                if stop is not None:
                    stop.check()
                if ended:
                    break
        for callback in callbacks:
            callback.on_end(run)
    save(finished=True)
    return history


def _end_epoch(
    run: Run,
    history: History,
    current: _Epoch,
    valid: BatchSource | None,
    seed: int,
    callbacks: Sequence[Callback],
) -> None:
    epoch = run.step // run.steps_per_epoch - 1
    row: Row = {"epoch": epoch, "step": run.step}
    row.update({name: total / run.steps_per_epoch for name, total in current.totals.items()})
    current.totals.clear()
    if valid is not None:
        measured = run.strategy.evaluate(valid.epoch(0), generator=generator_at(seed, "valid", epoch))
        row.update({f"valid_{name}": value for name, value in measured.items()})
    history.rows.append(row)
    for callback in callbacks:
        callback.on_epoch_end(run, row)


def _snapshot(
    run: Run, history: History, current: _Epoch, callbacks: Sequence[Callback], *, finished: bool
) -> dict[str, Any]:
    return {
        "step": run.step,
        "should_stop": run.should_stop,
        "finished": finished,
        "rows": history.rows,
        "totals": current.totals,
        "parts": {name: part.state_dict() for name, part in run.strategy.parts().items()},
        "callbacks": [callback.state_dict() for callback in callbacks],
    }


def _restore(state: dict[str, Any], run: Run, history: History, current: _Epoch, callbacks: Sequence[Callback]) -> None:
    run.step = state["step"]
    run.should_stop = state["should_stop"]
    history.rows = state["rows"]
    current.totals = state["totals"]
    for name, part in run.strategy.parts().items():
        part.load_state_dict(state["parts"][name])
    for callback, saved in zip(callbacks, state["callbacks"], strict=True):
        callback.load_state_dict(saved)
