"""Differentiable search: steps of the weights and of the distribution over architectures in turn.

Liu et al. (2019), "DARTS: Differentiable Architecture Search", arXiv:1806.09055, and its descendants; see
`polyarch.strategies.hypergradients` and `polyarch.strategies.mixed_supernet`.
"""

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
from polyarch.strategies.strategy import Stateful, Strategy, measure, minimise, to_training
from polyarch.supernets import Supernet


class Bilevel(Strategy):
    """Takes one step of q along a hypergradient, then steps of the weights under the new q on the same batches.

    Args:
        optimizer: of the weights; plain SGD, with or without momentum.
        q_optimizer: of the parameters of q.
        gradient: the hypergradient; that of the held-out loss by default.
        regulariser: a function of the parameters of q that is added to the loss of q.
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
        """Whether steps move q; off while only the weights warm up."""
        self.batches_per_step = self.gradient.steps
        self.held_out_per_step = self.gradient.held_out_batches

    @property
    def net(self) -> Supernet:
        """The supernet."""
        return self.mixed.relaxation.net

    @property
    def q(self) -> ArchDistribution:
        """The distribution over the relaxed choices."""
        return self.mixed.q

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Measures ``loss``, the mean training loss of the steps, and ``q_loss``, the mean outer loss."""
        to_training(self.mixed.relaxation)
        if not self.learns_q:
            return {"loss": self._train(train, generator)}
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
            return {"loss": self._train(train, generator), "q_loss": q_loss}
        except NotFiniteError:
            with torch.no_grad():
                for parameter, value in zip(self.q.parameters(), before, strict=True):
                    parameter.copy_(value)
            self.q_optimizer.load_state_dict(memory)
            raise

    def _train(self, train: Sequence[Batch], generator: Generator) -> float:
        """Takes one step of the weights on every batch and returns the mean loss."""
        return sum(take_step(self.mixed, self.optimizer, batch, generator) for batch in train) / len(train)

    def step_with(self, gates: Gates, batch: Batch) -> None:
        """Takes a step of the weights with the given gates and leaves q unchanged."""
        to_training(self.mixed.relaxation)
        minimise(self.mixed.loss_with(gates, batch), self.optimizer)

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Loss and metric of the current architecture with the shared weights and batch statistics."""
        network = self.net.extract(self.architecture())
        BatchStatistics().prepare(network, ())
        return measure(self.mixed.task, network, batches)

    def architecture(self) -> Architecture:
        """The architecture that q currently selects."""
        return self.mixed.architecture()

    def relaxed_loss(self, batch: Batch) -> Tensor:
        """The loss with options mixed by their probabilities, a smooth function of the parameters of q."""
        return self.mixed.loss_with(self.q.mean(), batch)

    def parts(self) -> Mapping[str, Stateful]:
        """Supernet, q and both optimisers."""
        return {"net": self.net, "q": self.q, "optimizer": self.optimizer, "q_optimizer": self.q_optimizer}
