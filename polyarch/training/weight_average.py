"""The average of a network's weights over the last part of its training.

Shamir and Zhang (2013), "Stochastic Gradient Descent for Non-smooth Optimization: Convergence Results and Optimal
Averaging Schemes", arXiv:1212.1824.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.training.callbacks import Callback, FitState, Row

SHARPNESS = 16
EVERY = 4
"""Steps between two updates: neighbouring weights hardly differ."""


class WeightAverage(Callback):
    """Polynomial-decay averaging: a_t = (1 - c_t) a_{t-1} + c_t w_t with c_t = (k + 1) / (t + k), k = 16.

    The window is about the last seventeenth of the steps so far, however long the training is. Running averages of
    normalisation layers are averaged like weights.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.average = copy.deepcopy(network)
        self._updates = 0

    def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
        """Brings the average up to date at every fourth step."""
        if state.step % EVERY:
            return
        self._updates += 1
        share = (SHARPNESS + 1) / (self._updates + SHARPNESS)
        with torch.no_grad():
            ours, theirs = _numbers(self.average), _numbers(self.network)
            torch._foreach_lerp_(ours, theirs, share)

    def state_dict(self) -> dict[str, Any]:
        """The average and the number of its updates."""
        return {"average": self.average.state_dict(), "updates": self._updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what ``state_dict`` returned."""
        self.average.load_state_dict(state["average"])
        self._updates = state["updates"]


class BestAverage(Callback):
    """Keeps the averaged weights that were best on the way, for data on which networks learn examples by heart.

    Args:
        measure: of a network in evaluation mode, lower is better, e.g. its loss on validation data.
        every: the number of epochs between two measurements.
        patience: the number of measurements in a row without a better one after which the training ends; never by
            default.

    Attributes:
        lowest: the best measurement so far.
        lowest_after: the number of steps before it.
    """

    def __init__(
        self,
        average: WeightAverage,
        measure: Callable[[nn.Module], float],
        *,
        every: int = 1,
        patience: int | None = None,
    ) -> None:
        self.average = average
        self.measure = measure
        self.every = every
        self.patience = patience
        self.lowest: float | None = None
        self.lowest_after = 0
        self._waited = 0
        self._kept: dict[str, Any] = {}

    @property
    def has_stopped(self) -> bool:
        """Whether the training is over because nothing better came."""
        return self.patience is not None and self._waited >= self.patience

    def on_start(self, state: FitState) -> None:
        """A training that was over stays so."""
        state.should_stop = state.should_stop or self.has_stopped

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        """Keeps a copy if it is the best so far, and asks for a stop if there has been none for too long."""
        if (row["epoch"] + 1) % self.every:
            return
        found = self.measure(self.average.average.eval())
        self._waited += 1
        if self.lowest is None or found < self.lowest:
            self.lowest, self.lowest_after, self._waited = found, state.step, 0
            self._kept = {name: tensor.clone() for name, tensor in self.average.average.state_dict().items()}
        state.should_stop = state.should_stop or self.has_stopped

    def best(self) -> nn.Module:
        """A network with the best weights; the average of now if it was never measured."""
        network = copy.deepcopy(self.average.average)
        if self._kept:
            network.load_state_dict(self._kept)
        return network.eval()

    def state_dict(self) -> dict[str, Any]:
        """The best weights and their value."""
        return {"lowest": self.lowest, "after": self.lowest_after, "waited": self._waited, "kept": self._kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what ``state_dict`` returned."""
        self.lowest, self.lowest_after = state["lowest"], state["after"]
        self._waited, self._kept = state["waited"], state["kept"]


def _numbers(network: nn.Module) -> list[Tensor]:
    """Weights and running averages; counters of batches are no numbers to average."""
    return [one for one in (*network.parameters(), *network.buffers()) if one.is_floating_point()]
