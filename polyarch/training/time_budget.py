"""Trainings that end after so many seconds, and learning rates that know when that is."""

import time
from typing import Any

import torch

from polyarch.errors import InvalidInput
from polyarch.training.callbacks import Callback, FitState


class TimeBudget(Callback):
    """Stops at the end of the epoch in which ``seconds`` are over, counted from the first step, over all resumptions.

    Args:
        step_seconds: what a step counts, for trainings that take the same steps on every machine; by default the time
            that passes.
    """

    def __init__(self, seconds: float, step_seconds: float | None = None) -> None:
        if seconds <= 0:
            raise InvalidInput(f"Expected a budget of more than 0 seconds. Got {seconds}.")
        self.seconds = seconds
        self.step_seconds = step_seconds
        self._before = 0.0
        self._started: float | None = None
        self._steps = 0

    @property
    def used(self) -> float:
        """Seconds so far."""
        if self.step_seconds is not None:
            return self._steps * self.step_seconds
        return self._before + (0.0 if self._started is None else time.monotonic() - self._started)

    def on_start(self, state: FitState) -> None:
        """Starts the clock; a training that used up a smaller budget goes on."""
        self._steps, self._started = state.step, time.monotonic()
        state.should_stop = self.used >= self.seconds

    def on_step_start(self, state: FitState) -> None:
        """Counts the step."""
        self._steps = state.step

    def on_epoch_end(self, state: FitState, row: dict[str, float]) -> None:
        """Requests a stop when the time is over."""
        self._steps = state.step
        row["seconds"] = self.used
        state.should_stop = self.used >= self.seconds

    def state_dict(self) -> dict[str, Any]:
        """The seconds so far."""
        return {"used": self.used}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what ``state_dict`` returned."""
        self._before = state["used"]


class Trapezoid(Callback):
    """A learning rate that rises over the first steps, stays, and falls linearly to zero at the end of a budget.

    A training that has not begun to fall can be given a larger budget without having lost anything: schedules of
    this form are as good as a cosine of the right length. Hägele et al. (2024), "Scaling Laws and Compute-Optimal
    Training Beyond Fixed Training Durations", arXiv:2405.18392.

    Args:
        peak: the highest rate.
        warmup: the number of steps in which it rises.
        falls_after: the seconds of the budget after which it falls; never by default.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        budget: TimeBudget,
        *,
        peak: float,
        warmup: int,
        falls_after: float | None = None,
    ) -> None:
        self.optimizer = optimizer
        self.budget = budget
        self.peak = peak
        self.warmup = warmup
        self.falls_after = falls_after

    def on_step_start(self, state: FitState) -> None:
        """Sets the learning rate of this step."""
        rate = self.peak * min((state.step + 1) / max(self.warmup, 1), 1.0)
        if self.falls_after is not None:
            left = (self.budget.seconds - self.budget.used) / max(self.budget.seconds - self.falls_after, 1e-9)
            rate *= min(max(left, 0.0), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
