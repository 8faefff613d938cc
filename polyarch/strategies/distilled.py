"""Ordinary training of one network that also learns from a larger one.

Hinton, Vinyals and Dean (2015), "Distilling the Knowledge in a Neural Network", arXiv:1503.02531.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Generator, Tensor, nn

from polyarch.data import Batch
from polyarch.errors import InvalidInput
from polyarch.strategies.strategy import minimise, to_training
from polyarch.strategies.supervised import Supervised
from polyarch.tasks import Task


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
        require_share(self.share)

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Takes one gradient step on one batch."""
        (batch,) = train
        to_training(self.network)
        with torch.no_grad():
            taught = self.teacher(batch.inputs)
        loss = taught_loss(self.task, self.network(batch.inputs), taught, batch.targets, self.share)
        return {"loss": minimise(loss, self.optimizer)}


def require_share(share: float) -> None:
    """Requires a share of the teacher."""
    if not 0 <= share <= 1:
        raise InvalidInput(f"Expected a share of the teacher from 0 to 1. Got {share}.")


def taught_loss(task: Task, outputs: Tensor, teacher: Tensor, targets: Tensor, share: float) -> Tensor:
    """(1 - share) loss(outputs, targets) + share d(outputs, teacher): (B, O), (B, O), (B, ...) -> ()."""
    distance = task.distillation(outputs, teacher, targets)
    return distance if share == 1 else (1 - share) * task.loss(outputs, targets) + share * distance
