"""Ordinary training of one network: baselines, and extracted architectures from scratch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Generator, nn

from polyarch.data import Batch
from polyarch.strategies.strategy import Loss, Stateful, Strategy, Tally, minimise, to_training


class Supervised(Strategy):
    """Minimises the loss of a plain module."""

    def __init__(self, network: nn.Module, optimizer: torch.optim.Optimizer, *, loss: Loss = F.cross_entropy) -> None:
        self.network = network
        self.optimizer = optimizer
        self.loss = loss

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """One gradient step on one batch."""
        (batch,) = train
        to_training(self.network)
        logits = self.network(batch.inputs)
        return {"loss": minimise(self.loss(logits, batch.targets), self.optimizer)}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """In evaluation mode."""
        self.network.eval()
        tally = Tally()
        with torch.no_grad():
            for inputs, targets in batches:
                tally.add(self.network(inputs), targets)
        return tally.means()

    def parts(self) -> Mapping[str, Stateful]:
        """Network and optimiser."""
        return {"network": self.network, "optimizer": self.optimizer}
