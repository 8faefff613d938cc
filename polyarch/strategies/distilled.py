"""Ordinary training of one network that also learns from a larger one.

Hinton, Vinyals and Dean (2015), "Distilling the Knowledge in a Neural Network", arXiv:1503.02531.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Generator, nn

from polyarch.data import Batch
from polyarch.errors import InvalidInput
from polyarch.strategies.strategy import minimise, to_training
from polyarch.strategies.supervised import Supervised


@dataclass(eq=False)
class Distilled(Supervised):
    """Minimises (1 - share) loss(f(x), y) + share d(f(x), teacher(x)), with the distillation d of the task.

    Args:
        teacher: a network in evaluation mode, which stays as it is.
        share: of the teacher, from 0 to 1.
    """

    _: KW_ONLY
    teacher: nn.Module
    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InvalidInput(f"Expected a share of the teacher from 0 to 1. Got {self.share}.")

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Takes one gradient step on one batch."""
        (batch,) = train
        to_training(self.network)
        with torch.no_grad():
            taught = self.teacher(batch.inputs)
        outputs = self.network(batch.inputs)
        supervised = self.task.loss(outputs, batch.targets)
        distance = self.task.distillation(outputs, taught, batch.targets)
        return {"loss": minimise((1 - self.share) * supervised + self.share * distance, self.optimizer)}
