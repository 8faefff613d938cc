"""One-shot training of a supernet by sampled paths.

Guo et al. (2020), "Single Path One-Shot Neural Architecture Search with Uniform Sampling", arXiv:1904.00420.
`polyarch.strategies.paths` and `polyarch.strategies.inner_loops` add FairNAS, Reptile and MetaProx.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Generator, Tensor

from polyarch.data import Batch, Inputs
from polyarch.distributions import Uniform
from polyarch.nn import BatchStatistics
from polyarch.strategies.inner_loops import InnerLoop, PathGradients
from polyarch.strategies.paths import PathSampler, RandomPaths
from polyarch.strategies.strategy import CLASSES, Stateful, Strategy, measure, to_training
from polyarch.supernets import Supernet
from polyarch.tasks import Task


class OneShot(Strategy):
    """Draws paths, gets a pseudo-gradient of the shared weights from an inner loop, and takes an optimiser step.

    By default a step uses one uniform path on one batch: w <- w - lr * grad of loss(net(x, a), y). Only weights on the
    paths of a step move.

    Args:
        optimizer: takes the outer step along the pseudo-gradients. With displacements w - w_T from the inner loop, SGD
            with learning rate r does w <- w + r (mean of w_T - w).
        paths: samples the paths; one uniform path by default.
        inner: turns paths into pseudo-gradients; the gradients of the loss by default.
    """

    def __init__(
        self,
        net: Supernet,
        optimizer: torch.optim.Optimizer,
        *,
        paths: PathSampler | None = None,
        inner: InnerLoop | None = None,
        task: Task = CLASSES,
    ) -> None:
        self.net = net
        self.optimizer = optimizer
        self.paths = paths or RandomPaths(Uniform(net.space))
        self.inner = inner or PathGradients()
        self.task = task
        self.batches_per_step = self.inner.batches
        self.paths_per_step = self.paths.count * self.inner.passes

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Takes one outer step; measures the mean loss over paths and batches."""
        paths = self.paths.draw(generator)
        to_training(self.net)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.inner.run(self.net, paths, train, self.task.loss)
        self.optimizer.step()
        return {"loss": loss}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Means over random paths, one per batch, with batch statistics."""

        def predict(inputs: Inputs) -> Tensor:
            path = self.net.extract(self.paths.draw(generator)[0])
            BatchStatistics().prepare(path, ())
            outputs: Tensor = path(inputs)
            return outputs

        return measure(self.task, predict, batches)

    def parts(self) -> Mapping[str, Stateful]:
        """Supernet and optimisers; the distribution of paths is fixed."""
        return {"net": self.net, "optimizer": self.optimizer, **self.inner.parts()}
