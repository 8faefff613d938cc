"""Ordinary training of one network, alone or with an auxiliary classifier: baselines, and extracted architectures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Generator, Tensor, nn

from polyarch.data import Batch
from polyarch.strategies.strategy import CLASSES, Stateful, Strategy, measure, minimise, to_training
from polyarch.tasks import Task


@dataclass(eq=False)
class Supervised(Strategy):
    """Minimises the loss of a plain module.

    Args:
        clip: the largest norm of a gradient of all weights together.
    """

    network: nn.Module
    optimizer: torch.optim.Optimizer
    _: KW_ONLY
    task: Task = CLASSES
    clip: float | None = None

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Takes one gradient step on one batch."""
        (batch,) = train
        return {"loss": minimise(self.loss(batch), self.optimizer, clip=self.clip)}

    def loss(self, batch: Batch) -> Tensor:
        """What a step minimises, in training mode."""
        to_training(self.network)
        return self.task.loss(self.network(batch.inputs), batch.targets)

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Loss and metric in evaluation mode."""
        return measure(self.task, self.network.eval(), batches)

    def parts(self) -> Mapping[str, Stateful]:
        """Network and optimiser."""
        return {"network": self.network, "optimizer": self.optimizer}


@dataclass(eq=False)
class SupervisedWithAuxiliary(Supervised):
    """Minimises L(outputs) + weight L(auxiliary outputs) of a network that is trained with an auxiliary classifier.

    Args:
        network: what is evaluated, (B, ...) -> (B, O).
        taught: the same weights and the auxiliary classifier, (B, ...) -> (2, B, O); the optimiser has all of them.
        auxiliary: the weight of the auxiliary loss.
    """

    taught: nn.Module
    auxiliary: float

    def loss(self, batch: Batch) -> Tensor:
        """The sum of both."""
        to_training(self.taught)
        outputs, auxiliary = self.taught(batch.inputs)
        return self.task.loss(outputs, batch.targets) + self.auxiliary * self.task.loss(auxiliary, batch.targets)

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Loss and metric of the network alone, in evaluation mode."""
        self.taught.eval()
        return super().evaluate(batches, generator=generator)

    def parts(self) -> Mapping[str, Stateful]:
        """All that is trained, and the optimiser."""
        return {"network": self.taught, "optimizer": self.optimizer}
