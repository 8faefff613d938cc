"""Training of a supernet by sampled paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Generator

from polyarch.data import Batch
from polyarch.distributions import ArchDistribution, Uniform
from polyarch.nn import BatchStatistics
from polyarch.strategies.strategy import Loss, Stateful, Strategy, Tally, minimise, to_training
from polyarch.supernets import Supernet


class SinglePath(Strategy):
    """One path per batch, drawn from a fixed q (uniform by default): w <- w - lr * grad of loss(net(x, a), y), a ~ q.

    Only the weights on the path get a gradient and move.
    """

    def __init__(
        self,
        net: Supernet,
        optimizer: torch.optim.Optimizer,
        *,
        q: ArchDistribution | None = None,
        loss: Loss = F.cross_entropy,
    ) -> None:
        self.net = net
        self.optimizer = optimizer
        self.q = q or Uniform(net.space)
        self.loss = loss

    def step(self, train: Sequence[Batch], valid: Batch | None = None, *, generator: Generator) -> dict[str, float]:
        """One gradient step on one path and one batch."""
        (batch,) = train
        (architecture,) = self.q.sample(1, generator=generator)
        to_training(self.net)
        logits = self.net(batch.inputs, architecture)
        return {"loss": minimise(self.loss(logits, batch.targets), self.optimizer)}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """The mean over random paths, one per batch, with batch statistics."""
        tally = Tally()
        with torch.no_grad():
            for inputs, targets in batches:
                (architecture,) = self.q.sample(1, generator=generator)
                path = self.net.extract(architecture)
                BatchStatistics().prepare(path, ())
                tally.add(path(inputs), targets)
        return tally.means()

    def parts(self) -> Mapping[str, Stateful]:
        """Supernet, q and optimiser."""
        return {"net": self.net, "q": self.q, "optimizer": self.optimizer}
