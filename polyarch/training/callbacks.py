"""What can be hung onto training: schedules, early stopping, progress, logs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from polyarch.errors import InvalidInput, MissingExtra, UnknownName

if TYPE_CHECKING:
    from polyarch.strategies import Strategy

Row = dict[str, float]
"""What was measured in an epoch: ``epoch``, ``step``, training means, and ``valid_...`` values."""


class Run:
    """Where training stands, as callbacks see it."""

    def __init__(self, strategy: Strategy, *, epochs: int, steps_per_epoch: int) -> None:
        self.strategy = strategy
        self.epochs = epochs
        self.steps_per_epoch = steps_per_epoch
        self.step = 0
        self.should_stop = False

    @property
    def epoch(self) -> int:
        """The epoch that is under way."""
        return self.step // self.steps_per_epoch

    @property
    def total_steps(self) -> int:
        """The steps of the whole run if nothing stops it early."""
        return self.epochs * self.steps_per_epoch


class Callback:
    """Called at fixed points of training; every method does nothing by default."""

    def on_start(self, run: Run) -> None:
        """Before the first step, also after a resume."""

    def on_step_start(self, run: Run) -> None:
        """Before a step; ``run.step`` counts the finished ones."""

    def on_step_end(self, run: Run, metrics: Mapping[str, float]) -> None:
        """After a step."""

    def on_epoch_end(self, run: Run, row: Row) -> None:
        """After an epoch and its validation."""

    def on_end(self, run: Run) -> None:
        """After the last step; not called when interrupted."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts back what ``state_dict`` gave."""


class Schedule(Callback):
    """Sets the learning rate from the position alone, so that a resume needs nothing.

    A parameter group of the optimiser may have a ``rate_factor``, by which its rate differs from that of the others.

    Args:
        rate: maps (steps done, total steps) to the learning rate; see `cosine` and `piecewise`.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, rate: Callable[[int, int], float]) -> None:
        self.optimizer = optimizer
        self.rate = rate

    def on_step_start(self, run: Run) -> None:
        """Sets the rate of this step in every parameter group."""
        rate = self.rate(run.step, run.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("rate_factor", 1.0)


def cosine(start: float, end: float = 0.0, *, warmup: int = 0) -> Callable[[int, int], float]:
    """start -> end along half a cosine, after ``warmup`` steps of linear increase."""

    def rate(step: int, total: int) -> float:
        if step < warmup:
            return start * (step + 1) / warmup
        share = (step - warmup) / max(total - warmup, 1)
        return end + (start - end) * (1 + math.cos(math.pi * share)) / 2

    return rate


def piecewise(rates: Mapping[int, float]) -> Callable[[int, int], float]:
    """The rate of the last listed step that has been reached, e.g. ``piecewise({0: 0.1, 3000: 0.01})``."""
    if 0 not in rates:
        raise InvalidInput(f"Expected a rate for step 0. Got rates for steps {sorted(rates)}.")

    def rate(step: int, total: int) -> float:
        return rates[max(start for start in rates if start <= step)]

    return rate


class EarlyStopping(Callback):
    """Stops after ``patience`` epochs without a better value, and puts the best state back at the end.

    Args:
        monitor: a key of the epoch's row, e.g. ``valid_accuracy`` or ``elbo``.
        maximise: whether larger is better.
        min_delta: how much better counts.
        after: epochs of a warm-up, of which no state is kept.
    """

    def __init__(self, monitor: str, *, maximise: bool, patience: int, min_delta: float = 0.0, after: int = 0) -> None:
        if patience < 1:
            raise InvalidInput(f"Expected a patience of 1 epoch or more. Got {patience}.")
        self.monitor = monitor
        self.maximise = maximise
        self.patience = patience
        self.min_delta = min_delta
        self.after = after
        self.best: float | None = None
        self.best_epoch = -1
        self._best_parts: dict[str, dict[str, Any]] = {}

    def on_epoch_end(self, run: Run, row: Row) -> None:
        """Keeps the state if it is the best so far; asks to stop when patience is over."""
        if self.monitor not in row:
            raise UnknownName("measured value", self.monitor, row)
        if row["epoch"] < self.after:
            return
        value = row[self.monitor]
        gain = 0.0 if self.best is None else (value - self.best if self.maximise else self.best - value)
        if self.best is None or gain > self.min_delta:
            self.best, self.best_epoch = value, int(row["epoch"])
            self._best_parts = {name: copy_state(part.state_dict()) for name, part in run.strategy.parts().items()}
        elif row["epoch"] - self.best_epoch >= self.patience:
            run.should_stop = True

    def on_end(self, run: Run) -> None:
        """Puts the best state back."""
        for name, part in run.strategy.parts().items():
            if name in self._best_parts:
                part.load_state_dict(self._best_parts[name])

    def state_dict(self) -> dict[str, Any]:
        """Best value, its epoch and its state."""
        return {"best": self.best, "best_epoch": self.best_epoch, "parts": self._best_parts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts them back."""
        self.best, self.best_epoch, self._best_parts = state["best"], state["best_epoch"], state["parts"]


def copy_state(state: Any) -> Any:
    """A copy of nested state; several times faster than ``copy.deepcopy``, and it is taken at every better epoch."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, Mapping):
        return {key: copy_state(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(copy_state(value) for value in state)
    return state


class TensorBoard(Callback):
    """Writes every epoch's row to TensorBoard; needs the ``tensorboard`` extra."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("Logging to TensorBoard", "tensorboard") from None
        self._writer = SummaryWriter(str(folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    def on_epoch_end(self, run: Run, row: Row) -> None:
        """One scalar per value."""
        for name, value in row.items():
            self._writer.add_scalar(name, value, int(row["step"]))

    def on_end(self, run: Run) -> None:
        """Flushes what is buffered."""
        self._writer.flush()


class EpochLog(Callback):
    """Hands every epoch's row to a function, e.g. ``journal.append``."""

    def __init__(self, write: Callable[[Row], None]) -> None:
        self.write = write

    def on_epoch_end(self, run: Run, row: Row) -> None:
        """Passes the row on."""
        self.write(row)


class StepProgress(Callback):
    """Tells a function how many of how many steps are done, and the last loss."""

    def __init__(self, report: Callable[[int, int, Mapping[str, float]], None]) -> None:
        self.report = report

    def on_start(self, run: Run) -> None:
        """Shows where a resumed run starts."""
        self.report(run.step, run.total_steps, {})

    def on_step_end(self, run: Run, metrics: Mapping[str, float]) -> None:
        """After every step."""
        self.report(run.step, run.total_steps, metrics)
