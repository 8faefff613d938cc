"""Differentiable search: weights and the distribution over architectures in turn."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Generator, Tensor

from polyarch.data import Batch
from polyarch.distributions import ArchDistribution
from polyarch.errors import NotFiniteError
from polyarch.nn import BatchStatistics
from polyarch.spaces import Architecture, Gates
from polyarch.strategies.hypergradients import HeldOutLoss, Hypergradient, take_step
from polyarch.strategies.mixed_supernet import MixedSupernet
from polyarch.strategies.strategy import Stateful, Strategy, Tally, minimise, to_training
from polyarch.supernets import Supernet


class Bilevel(Strategy):
    """One step of q along a hypergradient, then the steps of the weights with the new q on the same training batches.

    Args:
        optimizer: of the weights; plain SGD, with or without momentum.
        q_optimizer: of the parameters of q.
        gradient: of q; that of the held-out loss by default.
        regulariser: what is added to the loss of q, a function of its parameters.
    """

    def __init__(
        self,
        mixed: MixedSupernet,
        optimizer: torch.optim.SGD,
        q_optimizer: torch.optim.Optimizer,
        *,
        gradient: Hypergradient | None = None,
        regulariser: Callable[[], Tensor] | None = None,
    ) -> None:
        self.mixed = mixed
        self.optimizer = optimizer
        self.q_optimizer = q_optimizer
        self.gradient = gradient or HeldOutLoss()
        self.regulariser = regulariser
        self.learns_q = True
        """Whether steps move q; a warm-up of the weights alone switches it off."""
        self.batches_per_step = self.gradient.train_batches
        self.held_out_per_step = self.gradient.held_out_batches

    @property
    def net(self) -> Supernet:
        """The supernet."""
        return self.mixed.relaxation.net

    @property
    def q(self) -> ArchDistribution:
        """Over the choices that are weighed."""
        return self.mixed.q

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Measures ``loss``, the mean training loss of the steps, and ``q_loss``, the mean of what q lets fall."""
        to_training(self.mixed.relaxation)
        if not self.learns_q:
            return {"loss": self._walk(train, generator)}
        before = [value.detach().clone() for value in self.q.parameters()]
        memory = copy.deepcopy(self.q_optimizer.state_dict())
        self.q_optimizer.zero_grad(set_to_none=True)
        q_loss = self.gradient.run(self.mixed, self.optimizer, train, held_out, generator)
        if self.regulariser is not None:
            self.regulariser().backward()
        self.q_optimizer.step()
        if self.gradient.advances:
            return {"loss": q_loss, "q_loss": q_loss}
        try:
            return {"loss": self._walk(train, generator), "q_loss": q_loss}
        except NotFiniteError:
            with torch.no_grad():
                for parameter, value in zip(self.q.parameters(), before, strict=True):
                    parameter.copy_(value)
            self.q_optimizer.load_state_dict(memory)
            raise

    def _walk(self, train: Sequence[Batch], generator: Generator) -> float:
        """The mean loss of a step of the weights on every batch."""
        return sum(take_step(self.mixed, self.optimizer, batch, generator) for batch in train) / len(train)

    def step_with(self, gates: Gates, batch: Batch) -> None:
        """A step of the weights with given gates; q stays as it is."""
        to_training(self.mixed.relaxation)
        minimise(self.mixed.loss_with(gates, batch), self.optimizer)

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """The architecture of now, alone with the shared weights and batch statistics."""
        network = self.net.extract(self.architecture())
        BatchStatistics().prepare(network, ())
        tally = Tally()
        with torch.no_grad():
            for inputs, targets in batches:
                tally.add(network(inputs), targets)
        return tally.means()

    def architecture(self) -> Architecture:
        """What q points at."""
        return self.mixed.architecture()

    def relaxed_loss(self, batch: Batch) -> Tensor:
        """The loss of a batch mixed by the probabilities of all options, a smooth function of the parameters of q."""
        return self.mixed.loss_with(self.q.mean(), batch)

    def parts(self) -> Mapping[str, Stateful]:
        """Supernet, q and both optimisers."""
        return {"net": self.net, "q": self.q, "optimizer": self.optimizer, "q_optimizer": self.q_optimizer}
