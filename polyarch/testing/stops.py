"""Stops a training at a given step."""

from collections.abc import Mapping

from polyarch.training import Callback, FitState, StopRequest


class StopAt(Callback):
    """Requests a stop after a step, like Ctrl-C: ``fit(..., callbacks=[stop], stop=stop.request)``."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.request = StopRequest()

    def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
        """Requests the stop at its step."""
        if state.step == self.step:
            self.request.ask()
