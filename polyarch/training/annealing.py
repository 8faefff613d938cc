"""What changes in the course of a differentiable search, by the position alone."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from polyarch.errors import InvalidInput
from polyarch.strategies import Bilevel
from polyarch.training.callbacks import Callback, Run


class Annealing(Callback):
    """Sets the temperature of relaxed draws: start + (end - start) * share of the steps that are done."""

    def __init__(self, strategy: Bilevel, start: float, end: float) -> None:
        if not (start > 0 and end > 0):
            raise InvalidInput(f"Expected temperatures above 0. Got {start} and {end}.")
        self.strategy = strategy
        self.start = start
        self.end = end

    def on_step_start(self, run: Run) -> None:
        """The temperature of this step."""
        share = run.step / max(run.total_steps - 1, 1)
        self.strategy.mixed.temperature = self.start + (self.end - self.start) * share


class WeightsFirst(Callback):
    """Leaves q as it is for the first epochs, so that it is not led by weights that know nothing yet."""

    def __init__(self, strategy: Bilevel, epochs: int) -> None:
        self.strategy = strategy
        self.epochs = epochs

    def on_step_start(self, run: Run) -> None:
        """Whether q moves in this step."""
        self.strategy.learns_q = run.epoch >= self.epochs


class SkipDropout(Callback):
    """Lets the dropout behind skip connections fade: start * (1 - share of the epochs that are done).

    Args:
        layers: the dropout layers; see `polyarch.nn.drop_skips`.
        rate: maps the share of the run that is done to the probability.
    """

    def __init__(self, layers: list[nn.Dropout], rate: Callable[[float], float]) -> None:
        self.layers = layers
        self.rate = rate

    def on_step_start(self, run: Run) -> None:
        """The probability of this step."""
        for layer in self.layers:
            layer.p = self.rate(run.step / run.total_steps)
