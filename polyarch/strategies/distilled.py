"""Ordinary training of one network that also learns from a larger one.

Hinton, Vinyals and Dean (2015), "Distilling the Knowledge in a Neural Network", arXiv:1503.02531.
"""

from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor, nn

from polyarch.data import Batch
from polyarch.errors import InvalidInput
from polyarch.strategies.strategy import to_training
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

    def loss(self, batch: Batch) -> Tensor:
        """That of the targets and the distance to the teacher."""
        to_training(self.network)
        with torch.no_grad():
            taught = self.teacher(batch.inputs)
        return taught_loss(self.task, self.network(batch.inputs), taught, batch.targets, self.share)


def require_share(share: float) -> None:
    """Requires a share of the teacher."""
    if not 0 <= share <= 1:
        raise InvalidInput(f"Expected a share of the teacher from 0 to 1. Got {share}.")


def taught_loss(task: Task, outputs: Tensor, teacher: Tensor, targets: Tensor, share: float) -> Tensor:
    """(1 - share) loss(outputs, targets) + share d(outputs, teacher): (B, O), (B, O), (B, ...) -> ()."""
    distance = task.distillation(outputs, teacher, targets)
    return distance if share == 1 else (1 - share) * task.loss(outputs, targets) + share * distance
