"""Ordinary training of one network: baselines, and extracted architectures trained from scratch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Generator, nn

from polyarch.data import Batch
from polyarch.strategies.strategy import CLASSES, Stateful, Strategy, measure, minimise, to_training
from polyarch.tasks import Task


@dataclass(eq=False)
class Supervised(Strategy):
    """Minimises the loss of a plain module."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    _: KW_ONLY
    task: Task = CLASSES

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Takes one gradient step on one batch."""
        (batch,) = train
        to_training(self.network)
        outputs = self.network(batch.inputs)
        return {"loss": minimise(self.task.loss(outputs, batch.targets), self.optimizer)}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Loss and metric in evaluation mode."""
        return measure(self.task, self.network.eval(), batches)

    def parts(self) -> Mapping[str, Stateful]:
        """Network and optimiser."""
        return {"network": self.network, "optimizer": self.optimizer}
