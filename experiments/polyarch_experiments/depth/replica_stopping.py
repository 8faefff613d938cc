"""Early stopping for networks that are trained side by side."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.training.callbacks import Callback, FitState, Row
from polyarch_experiments.depth.replicas import REPLICAS
from polyarch_experiments.depth.replicated import Replicated, loss_name


class ReplicaStopping(Callback):
    """`EarlyStopping` of every replica by its own training loss; training ends when the last has stopped.

    A replica that has stopped goes on with the others, but its best state is kept as it was and put back at the end.
    """

    def __init__(self, *, patience: int) -> None:
        if patience < 1:
            raise InvalidInput(f"Expected a patience of 1 epoch or more. Got {patience}.")
        self.patience = patience
        self.best: list[float] = []
        self.best_epochs: list[int] = []
        self.stopped: list[int | None] = []
        self._states: dict[str, Tensor] = {}

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        """Keeps the state of every replica that is at its best; asks to stop when patience is over for all."""
        epoch, tensors = int(row["epoch"]), _tensors(state)
        if not self.best:
            count = _strategy(state).net.replicas
            self.best, self.best_epochs, self.stopped = [float("inf")] * count, [-1] * count, [None] * count
            self._states = {name: value.detach().clone() for name, value in tensors.items()}
        better = []
        for replica, best in enumerate(self.best):
            loss = row[loss_name(replica)]
            if self.stopped[replica] is not None:
                continue
            if loss < best:
                self.best[replica], self.best_epochs[replica] = loss, epoch
                better.append(replica)
            elif epoch - self.best_epochs[replica] >= self.patience:
                self.stopped[replica] = epoch
        if len(better) == len(self.best):
            for name, value in tensors.items():
                self._states[name].copy_(value)
        elif better:
            for name, value in tensors.items():
                rows = torch.tensor(better, device=value.device)
                self._states[name].index_copy_(REPLICAS, rows, value.index_select(REPLICAS, rows))
        state.should_stop = all(stopped is not None for stopped in self.stopped)

    def on_end(self, state: FitState) -> None:
        """Puts the best states back."""
        with torch.no_grad():
            for name, value in _tensors(state).items():
                value.copy_(self._states[name])

    def state_dict(self) -> dict[str, Any]:
        """Best values, their epochs and states."""
        return {"best": self.best, "epochs": self.best_epochs, "stopped": self.stopped, "states": self._states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts them back."""
        self.best, self.best_epochs = state["best"], state["epochs"]
        self.stopped, self._states = state["stopped"], state["states"]


def _strategy(state: FitState) -> Replicated:
    if not isinstance(state.strategy, Replicated):
        raise InvalidInput(f"Expected networks that are trained side by side. Got {type(state.strategy).__name__}.")
    return state.strategy


def _tensors(state: FitState) -> dict[str, Tensor]:
    """Everything of the networks and distributions that has replicas, without gradients."""
    found = {}
    for part, module in _strategy(state).parts().items():
        if isinstance(module, torch.nn.Module):
            tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
            tensors = {name: value.detach() for name, value in tensors.items() if value.dim() > REPLICAS}
            found.update({f"{part}.{name}": value for name, value in tensors.items()})
    return found
