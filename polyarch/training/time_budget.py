"""Trainings that end after so many seconds, and learning rates that know when that is."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from polyarch.errors import InvalidInput
from polyarch.training.callbacks import Callback, FitState, Row


class TimeBudget(Callback):
    """Stops at the end of the epoch in which ``seconds`` are over, counted from the first step, over all resumptions.

    Args:
        step_seconds: what a step counts, for trainings that take the same steps on every machine; by default the time
            that passes.
        clock: what counts the nanoseconds that pass; ``time.process_time_ns`` counts those of the processor.
    """

    def __init__(
        self, seconds: float, step_seconds: float | None = None, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        if seconds <= 0:
            raise InvalidInput(f"Expected a budget of more than 0 seconds. Got {seconds}.")
        self.seconds = seconds
        # Whole nanoseconds, whose sums do not depend on where a training was interrupted.
        self._step = None if step_seconds is None else round(step_seconds * 1e9)
        self._clock = clock
        self._before = 0
        self._asked = 0.0  # the seconds of the largest budget before an interruption
        self._since: int | None = None
        self._now = 0

    @property
    def used(self) -> float:
        """Seconds so far."""
        return self._used() / 1e9

    def on_start(self, state: FitState) -> None:
        """Starts the clock; a training that used up a smaller budget goes on.

        One that was interrupted in the epoch in which its time was over goes on to the end of that epoch. One that had
        a larger budget when it was interrupted stays as it is.
        """
        self._since = self._now = state.step if self._step is not None else self._clock()
        is_within_epoch = state.step % state.steps_per_epoch != 0 and self._asked == self.seconds
        state.should_stop = self.used >= self.seconds and not is_within_epoch

    def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
        """Counts the step."""
        self._now = state.step if self._step is not None else self._clock()

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        """Requests a stop when the time is over."""
        row["seconds"] = self.used
        state.should_stop = self.used >= self.seconds

    def state_dict(self) -> dict[str, Any]:
        """The nanoseconds so far, and the seconds of the largest budget."""
        return {"used": self._used(), "seconds": max(self.seconds, self._asked)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what ``state_dict`` returned."""
        self._before, self._asked = state["used"], state.get("seconds", 0.0)

    def _used(self) -> int:
        passed = 0 if self._since is None else self._now - self._since
        return self._before + (passed if self._step is None else passed * self._step)


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


class TimeProgress(Callback):
    """Reports the whole seconds that a budget has used, its seconds, and the latest metrics to a function."""

    def __init__(self, budget: TimeBudget, report: Callable[[int, int, Mapping[str, float]], None]) -> None:
        self.budget = budget
        self.report = report

    def on_start(self, state: FitState) -> None:
        """Reports where a resumed training starts."""
        self.report(round(self.budget.used), round(self.budget.seconds), {})

    def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
        """Reports the step."""
        self.report(round(self.budget.used), round(self.budget.seconds), metrics)
