"""The training loop."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from polyarch.data import BatchSource, endless
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.executors import intra_op_threads
from polyarch.randomness import derive_seed, generator_at, seed_global
from polyarch.strategies import Strategy
from polyarch.training.callbacks import Callback, FitState, Row
from polyarch.training.checkpoint import CheckpointStore, check_plain
from polyarch.training.interruption import StopRequest


@dataclass
class History:
    """The measurements of a training, one row per epoch; ``history["loss"]`` is a column."""

    rows: list[Row]

    def __getitem__(self, name: str) -> list[float]:
        return [row[name] for row in self.rows]

    @property
    def last(self) -> Row:
        """The last epoch's row."""
        return self.rows[-1]


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
    threads: int | None = 1,
    further: bool = False,
) -> History:
    """Trains for a number of epochs and returns the measurements.

    All randomness is derived from (seed, step), and sums have the order that one thread gives them: a training ends
    with the same bits on any number of cores, and after an interruption.

    An epoch of N batches has ceil(N / T) steps of a strategy that takes T batches per step: the last one takes what is
    left. Measurements of an epoch are means over its batches.

    Args:
        valid: evaluated after every epoch, as ``valid_loss`` and ``valid_accuracy``.
        held_out: for strategies whose steps use held-out data, epoch after epoch.
        checkpoints: where to keep the state; if there is a checkpoint, training resumes from it.
        checkpoint_seconds: the time between two checkpoints.
        stop: checked after every step; on a request, `fit` writes a checkpoint and raises `Interrupted`.
        threads: torch's intra-op threads during the training; the caller's number is restored at the end. More than one
            is faster for large layers, and another number gives other last bits. None takes the caller's number.
        further: goes on with a training that has ended, if the callbacks or the number of epochs now allow it.
    """
    if epochs < 1 or len(train) < 1:
        raise InvalidInput(f"Expected 1 or more epochs and batches. Got {epochs=} and {len(train)} batches.")
    steps_per_epoch = math.ceil(len(train) / strategy.batches_per_step)
    if threads is not None and threads < 1:
        raise InvalidInput(f"Expected 1 or more threads, or None for the caller's number. Got {threads}.")
    if strategy.held_out_per_step and held_out is None:
        raise InvalidInput(f"Expected held-out data for {type(strategy).__name__}. Got none.")
    state = FitState(strategy, epochs=epochs, steps_per_epoch=steps_per_epoch)
    saved = checkpoints.load() if checkpoints else None
    if saved:
        _restore(saved, state, callbacks)
        if saved["finished"] and not further:
            return History(state.rows)

    def save(*, finished: bool) -> None:
        with _naming_epoch(state):
            _check_weights(strategy)  # so that the last checkpoint is always a good one
        if checkpoints:
            checkpoints.save(state.step, _snapshot(state, callbacks, finished=finished))

    saved_at = time.monotonic()
    # Dropout and the like draw from torch's global generator: it is seeded at every step and restored at the end.
    with torch.random.fork_rng(), intra_op_threads(threads):
        _call(callbacks, "on_start", state)
        while state.step < state.total_steps and not state.should_stop:
            first = (state.step % steps_per_epoch) * strategy.batches_per_step
            batches = train.epoch(state.epoch, start=first)
            others = endless(held_out, start=state.step * strategy.held_out_per_step) if held_out else iter(())
            while True:
                _call(callbacks, "on_step_start", state)
                group = list(islice(batches, strategy.batches_per_step))
                seed_global(derive_seed(seed, "global", state.step))
                aside = list(islice(others, strategy.held_out_per_step))
                with _naming_epoch(state):
                    metrics = strategy.step(group, aside, generator=generator_at(seed, "step", state.step))
                    _check_measured(metrics)
                state.step += 1
                for name, value in metrics.items():
                    state.totals[name] = state.totals.get(name, 0.0) + value * len(group)
                _call(callbacks, "on_step_end", state, metrics)
                ended = state.step % steps_per_epoch == 0
                if ended:
                    _end_epoch(state, len(train), valid, seed, callbacks)
                asked = stop is not None and stop.asked
                if asked or time.monotonic() - saved_at >= checkpoint_seconds:
                    save(finished=False)
                    saved_at = time.monotonic()
                if stop is not None:
                    stop.check()
                if ended:
                    break
        _call(callbacks, "on_end", state)
    save(finished=True)
    return History(state.rows)


def _end_epoch(
    state: FitState, batches: int, valid: BatchSource | None, seed: int, callbacks: Sequence[Callback]
) -> None:
    epoch = state.step // state.steps_per_epoch - 1
    row: Row = {"epoch": epoch, "step": state.step}
    row.update({name: total / batches for name, total in state.totals.items()})
    state.totals.clear()
    if valid is not None:
        with _naming_epoch(state, epoch):
            measured = state.strategy.evaluate(valid.epoch(0), generator=generator_at(seed, "valid", epoch))
            found = {f"valid_{name}": value for name, value in measured.items()}
            _check_measured(found)
        row.update(found)
    state.rows.append(row)
    _call(callbacks, "on_epoch_end", state, row)


@contextmanager
def _naming_epoch(state: FitState, epoch: int | None = None) -> Iterator[None]:
    """Says in which epoch and step a training diverged."""
    try:
        yield
    except NotFiniteError as error:
        raise error.at(f"in epoch {state.epoch if epoch is None else epoch}, step {state.step}") from None


def _check_measured(values: Mapping[str, float]) -> None:
    for name, value in values.items():
        if not math.isfinite(value):
            raise NotFiniteError(f"Expected a finite {name}. Got {value}; try a lower learning rate.")


def _check_weights(strategy: Strategy) -> None:
    for part in strategy.parts().values():
        for name, parameter in part.named_parameters() if isinstance(part, nn.Module) else ():
            if not is_lazy(parameter) and not parameter.isfinite().all():
                raise NotFiniteError(
                    f"Expected finite weights. Got NaN or infinity in {name!r}; try a lower learning rate."
                )


def _call(callbacks: Sequence[Callback], hook: str, state: FitState, *measured: Mapping[str, float]) -> None:
    """Calls a hook of every callback; an error is raised as it is, with a note on where it happened."""
    for callback in callbacks:
        try:
            getattr(callback, hook)(state, *measured)
        except Exception as error:
            error.add_note(f"Raised by {type(callback).__name__}.{hook} in epoch {state.epoch}, step {state.step}.")
            raise


def _snapshot(state: FitState, callbacks: Sequence[Callback], *, finished: bool) -> dict[str, Any]:
    states = [callback.state_dict() for callback in callbacks]
    for callback, kept in zip(callbacks, states, strict=True):
        check_plain(kept, f"state_dict of {type(callback).__name__}")
    return {
        "step": state.step,
        "should_stop": state.should_stop,
        "finished": finished,
        "rows": state.rows,
        "totals": state.totals,
        "parts": {name: part.state_dict() for name, part in state.strategy.parts().items()},
        "callbacks": states,
        "callback_names": _names(callbacks),
    }


def _restore(saved: dict[str, Any], state: FitState, callbacks: Sequence[Callback]) -> None:
    states, names = saved["callbacks"], _names(callbacks)
    before = saved.get("callback_names", names)  # checkpoints of polyarch 0.7 have none
    differ = [bool(kept) and old != new for old, new, kept in zip(before, names, states, strict=False)]
    if len(states) != len(callbacks) or any(differ):
        raise InvalidInput(
            f"Expected the callbacks that the training began with: {', '.join(before) or 'none'}. "
            f"Got {', '.join(names) or 'none'}."
        )
    state.step, state.should_stop = saved["step"], saved["should_stop"]
    state.rows, state.totals = saved["rows"], saved["totals"]
    state.load_parts(saved["parts"])
    for callback, kept in zip(callbacks, states, strict=True):
        callback.load_state_dict(kept)


def _names(callbacks: Sequence[Callback]) -> list[str]:
    return [type(callback).__name__ for callback in callbacks]
