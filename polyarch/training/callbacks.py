"""Callbacks of the training loop: learning rate schedules, early stopping, the log and progress.

The cosine schedule is that of Loshchilov and Hutter (2017), "SGDR: Stochastic Gradient Descent with Warm Restarts",
arXiv:1608.03983, without restarts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from polyarch.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from polyarch.strategies import Strategy

Row = dict[str, float]
"""The measurements of one epoch: ``epoch``, ``step``, training means, and ``valid_...`` values."""


class FitState:
    """The progress of `fit`, as callbacks see it: the rows of finished epochs and the totals of the current one."""

    def __init__(self, strategy: Strategy, *, epochs: int, steps_per_epoch: int) -> None:
        self.strategy = strategy
        self.epochs = epochs
        self.steps_per_epoch = steps_per_epoch
        self.step = 0
        self.should_stop = False
        self.rows: list[Row] = []
        self.totals: dict[str, float] = {}

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self.step // self.steps_per_epoch

    @property
    def total_steps(self) -> int:
        """The number of steps if nothing stops training early."""
        return self.epochs * self.steps_per_epoch

    def copied_parts(self) -> dict[str, dict[str, Any]]:
        """A copy of the state of every part of the strategy."""
        return {name: _copied(part.state_dict()) for name, part in self.strategy.parts().items()}

    def load_parts(self, saved: Mapping[str, dict[str, Any]]) -> None:
        """Restores the state of every part of the strategy."""
        for name, part in self.strategy.parts().items():
            part.load_state_dict(saved[name])


def _copied(state: Any) -> Any:
    """A copy of nested state; several times faster than ``copy.deepcopy``, and taken whenever an epoch improves."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, Mapping):
        return {key: _copied(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(_copied(value) for value in state)
    return state


class Callback:
    """Hooks at fixed points of training; by default each does nothing."""

    def on_start(self, state: FitState) -> None:
        """Before the first step, also after a resume."""

    def on_step_start(self, state: FitState) -> None:
        """Before a step; ``state.step`` counts the completed ones."""

    def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
        """After a step."""

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        """After an epoch and its validation."""

    def on_end(self, state: FitState) -> None:
        """After the last step, but not after an interruption."""

    def state_dict(self) -> dict[str, Any]:
        """The state to keep in checkpoints."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what ``state_dict`` returned."""


class Schedule(Callback):
    """Sets the learning rate to rate(completed steps, total steps), e.g. `cosine`, so that a resume restores it.

    The optional ``rate_factor`` of a parameter group multiplies its learning rate.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, rate: Callable[[int, int], float]) -> None:
        self.optimizer = optimizer
        self.rate = rate

    def on_step_start(self, state: FitState) -> None:
        """Sets the learning rate of this step in every parameter group."""
        rate = self.rate(state.step, state.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("rate_factor", 1.0)


def cosine(start: float, end: float = 0.0, *, warmup: int = 0) -> Callable[[int, int], float]:
    """From start to end along half a cosine, after ``warmup`` steps of linear increase."""

    def rate(step: int, total: int) -> float:
        if step < warmup:
            return start * (step + 1) / warmup
        share = (step - warmup) / max(total - warmup, 1)
        return end + (start - end) * (1 + math.cos(math.pi * share)) / 2

    return rate


def piecewise(rates: Mapping[int, float]) -> Callable[[int, int], float]:
    """The rate of the latest listed step, e.g. ``piecewise({0: 0.1, 3000: 0.01})``."""
    if 0 not in rates:
        raise InvalidInput(f"Expected a rate for step 0. Got rates for steps {sorted(rates)}.")
    return lambda step, total: rates[max(start for start in rates if start <= step)]


class EarlyStopping(Callback):
    """Stops after ``patience`` epochs without improvement and restores the best epoch.

    Args:
        monitor: a key of the epoch's row, e.g. ``valid_accuracy`` or ``elbo``.
        maximise: whether higher is better.
        after: the number of warm-up epochs, which are never the best.
    """

    def __init__(self, monitor: str, *, maximise: bool, patience: int, after: int = 0) -> None:
        if patience < 1:
            raise InvalidInput(f"Expected a patience of 1 epoch or more. Got {patience}.")
        self.monitor = monitor
        self.maximise = maximise
        self.patience = patience
        self.after = after
        self.best: float | None = None
        self.best_epoch = -1
        self._best_parts: dict[str, dict[str, Any]] = {}

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        """Keeps a copy of the best epoch; requests a stop when the patience runs out."""
        if self.monitor not in row:
            raise UnknownName("measured value", self.monitor, row)
        if row["epoch"] < self.after:
            return
        value = row[self.monitor]
        if self.best is None or (value > self.best if self.maximise else value < self.best):
            self.best, self.best_epoch = value, int(row["epoch"])
            self._best_parts = state.copied_parts()
        elif row["epoch"] - self.best_epoch >= self.patience:
            state.should_stop = True

    def on_end(self, state: FitState) -> None:
        """Restores the best epoch."""
        if self.best is not None:
            state.load_parts(self._best_parts)

    def state_dict(self) -> dict[str, Any]:
        """The best value, its epoch and the state of all parts then."""
        return {"best": self.best, "best_epoch": self.best_epoch, "parts": self._best_parts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what ``state_dict`` returned."""
        self.best, self.best_epoch, self._best_parts = state["best"], state["best_epoch"], state["parts"]


class EpochLog(Callback):
    """Passes every epoch's row to a function, e.g. ``journal.append``."""

    def __init__(self, write: Callable[[Row], None]) -> None:
        self.write = write

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        """Passes the row on."""
        self.write(row)


class StepProgress(Callback):
    """Reports the completed steps, the total and the latest metrics to a function."""

    def __init__(self, report: Callable[[int, int, Mapping[str, float]], None]) -> None:
        self.report = report

    def on_start(self, state: FitState) -> None:
        """Reports where a resumed training starts."""
        self.report(state.step, state.total_steps, {})

    def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
        """Reports the step."""
        self.report(state.step, state.total_steps, metrics)
