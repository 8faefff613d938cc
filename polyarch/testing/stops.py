"""Stopping a training on purpose."""

from __future__ import annotations

from collections.abc import Mapping

from polyarch.training import Callback, FitState, StopRequest


class StopAt(Callback):
    """Asks for a stop after a step, as Ctrl-C would: ``fit(..., callbacks=[stop], stop=stop.request)``."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.request = StopRequest()

    def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
        """Asks, if it is this step."""
        if state.step == self.step:
            self.request.ask()
