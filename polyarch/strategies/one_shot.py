"""Training of a supernet by sampled paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Generator

from polyarch.data import Batch
from polyarch.distributions import Uniform
from polyarch.nn import BatchStatistics
from polyarch.strategies.inner_loops import InnerLoop, PathGradients
from polyarch.strategies.paths import PathSampler, RandomPaths
from polyarch.strategies.strategy import Loss, Stateful, Strategy, Tally, to_training
from polyarch.supernets import Supernet


class OneShot(Strategy):
    """Draws paths, asks an inner loop where they want the shared weights to go, and lets an optimiser go there.

    By default a step is one uniform path on one batch: w <- w - lr * grad of loss(net(x, a), y). Only weights on the
    paths of a step move.

    Args:
        optimizer: the outer update, on the pseudo-gradients that the inner loop leaves: SGD of rate r on displacements
            is w <- w + r (mean of w_T - w).
        paths: which paths; one from the uniform distribution by default.
        inner: what each path asks for; its gradient by default.
    """

    def __init__(
        self,
        net: Supernet,
        optimizer: torch.optim.Optimizer,
        *,
        paths: PathSampler | None = None,
        inner: InnerLoop | None = None,
        loss: Loss = F.cross_entropy,
    ) -> None:
        self.net = net
        self.optimizer = optimizer
        self.paths = paths or RandomPaths(Uniform(net.space))
        self.inner = inner or PathGradients()
        self.loss = loss
        self.batches_per_step = self.inner.batches

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """One outer update; measures the mean loss over paths and batches."""
        paths = self.paths.draw(generator)
        to_training(self.net)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.inner.run(self.net, paths, train, self.loss)
        self.optimizer.step()
        return {"loss": loss}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """The mean over random paths, one per batch, with batch statistics."""
        tally = Tally()
        with torch.no_grad():
            for inputs, targets in batches:
                path = self.net.extract(self.paths.draw(generator)[0])
                BatchStatistics().prepare(path, ())
                tally.add(path(inputs), targets)
        return tally.means()

    def parts(self) -> Mapping[str, Stateful]:
        """Supernet and optimisers; what paths are drawn from is fixed."""
        return {"net": self.net, "optimizer": self.optimizer, **self.inner.parts()}
