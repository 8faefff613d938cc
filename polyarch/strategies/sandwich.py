"""One training for networks of every size: the sandwich rule with distillation in place.

Yu and Huang (2019), "Universally Slimmable Networks and Improved Training Techniques", arXiv:1903.05134. Depths beside
widths, and larger networks as teachers: Cai et al. (2020), "Once-for-All: Train One Network and Specialize it for
Efficient Deployment", arXiv:1908.09791; Yu et al. (2020), "BigNAS: Scaling Up Neural Architecture Search with Big
Single-Stage Models", arXiv:2003.11142.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Generator, Tensor

from polyarch.data import Batch, Inputs
from polyarch.nn import BatchStatistics
from polyarch.strategies.distilled import require_share, taught_loss
from polyarch.strategies.paths import SandwichPaths
from polyarch.strategies.strategy import CLASSES, Stateful, Strategy, finite, measure, to_training
from polyarch.supernets import Supernet
from polyarch.tasks import Task


class Sandwich(Strategy):
    """Trains the largest network on targets, and the smallest and some between on what the largest predicts.

    With the largest architecture a_1, the others a_2, ..., a_k of a step, and outputs f, the gradient is that of

        loss(f(x, a_1), y) + sum_i (1 - s) loss(f(x, a_i), y) + s d(f(x, a_i), f(x, a_1))    over i = 2, ..., k

    where d is the distillation of the task (`Task.distillation`), s the share of the teacher, 1 in the paper, and the
    teacher f(x, a_1) is taken as it is: no gradient flows through it.

    Every size normalises by the statistics of its own batch, so that running averages mean nothing afterwards: estimate
    those of a size anew (`polyarch.nn.ReestimatedStatistics`) before it is used.

    Args:
        paths: draws the sizes of a step, the largest first.
        share: of the teacher, from 0 to 1; early on, targets teach more than a network that knows little.
    """

    def __init__(
        self,
        net: Supernet,
        optimizer: torch.optim.Optimizer,
        *,
        paths: SandwichPaths,
        share: float = 1.0,
        task: Task = CLASSES,
    ) -> None:
        require_share(share)
        self.net = net
        self.optimizer = optimizer
        self.paths = paths
        self.share = share
        self.task = task
        self.paths_per_step = paths.count

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Takes one gradient step; measures the ``loss`` of the largest and the mean ``other_loss`` of the others."""
        (batch,) = train
        largest, *others = self.paths.draw(generator)
        to_training(self.net)
        self.optimizer.zero_grad(set_to_none=True)
        outputs = self.net(batch.inputs, largest)
        loss = self.task.loss(outputs, batch.targets)
        measured = {"loss": finite(loss)}
        loss.backward()
        teacher, total = outputs.detach(), 0.0
        for one in others:  # one backward pass each, so that memory holds one size at a time
            loss = taught_loss(self.task, self.net(batch.inputs, one), teacher, batch.targets, self.share)
            total += finite(loss)
            loss.backward()
        self.optimizer.step()
        return {**measured, "other_loss": total / len(others)} if others else measured

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Loss and metric of the largest, with batch statistics."""
        network = self.net.extract(self.paths.largest)
        BatchStatistics().prepare(network, ())

        def predict(inputs: Inputs) -> Tensor:
            outputs: Tensor = network(inputs)
            return outputs

        return measure(self.task, predict, batches)

    def parts(self) -> Mapping[str, Stateful]:
        """Supernet and optimiser."""
        return {"net": self.net, "optimizer": self.optimizer}
