"""Schedules of a differentiable search; each depends only on the step, so that a resume restores it.

Temperature: Jang, Gu and Poole (2017), "Categorical Reparameterization with Gumbel-Softmax", arXiv:1611.01144.
Weights first: Xu et al. (2020), "PC-DARTS: Partial Channel Connections for Memory-Efficient Architecture Search",
arXiv:1907.05737. Dropout of skips: Chen, Xie, Wu and Tian (2019), "Progressive Differentiable Architecture Search:
Bridging the Depth Gap between Search and Evaluation", arXiv:1904.12760.
"""

from collections.abc import Callable, Sequence

from torch import nn

from polyarch.errors import InvalidInput
from polyarch.strategies import Bilevel
from polyarch.training.callbacks import Callback, FitState


class TemperatureAnnealing(Callback):
    """Anneals the temperature of relaxed draws linearly from ``start`` at the first step to ``end`` at the last."""

    def __init__(self, strategy: Bilevel, start: float, end: float) -> None:
        if not (start > 0 and end > 0):
            raise InvalidInput(f"Expected temperatures above 0. Got {start} and {end}.")
        self.strategy = strategy
        self.start = start
        self.end = end

    def on_step_start(self, state: FitState) -> None:
        """Sets the temperature of this step."""
        share = state.step / max(state.total_steps - 1, 1)
        self.strategy.mixed.temperature = self.start + (self.end - self.start) * share


class WeightsFirst(Callback):
    """Freezes q for the first epochs, so that untrained weights do not decide about it."""

    def __init__(self, strategy: Bilevel, epochs: int) -> None:
        self.strategy = strategy
        self.epochs = epochs

    def on_step_start(self, state: FitState) -> None:
        """Decides whether q learns in this step."""
        self.strategy.learns_q = state.epoch >= self.epochs


class DropoutSchedule(Callback):
    """Sets the probability of dropout layers, such as those behind skips or `DropPath`, to rate(completed share)."""

    def __init__(self, layers: Sequence[nn.Dropout], rate: Callable[[float], float]) -> None:
        self.layers = layers
        self.rate = rate

    def on_step_start(self, state: FitState) -> None:
        """Sets the dropout probability of this step."""
        for layer in self.layers:
            layer.p = self.rate(state.step / state.total_steps)
