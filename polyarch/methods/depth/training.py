"""How networks whose depth is in question are trained: the same for learned and for fixed depths."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from polyarch.data import BatchSource
from polyarch.strategies import Strategy
from polyarch.training import Callback, CheckpointStore, EarlyStopping, History, Schedule, fit, piecewise


@dataclass(frozen=True)
class DepthTraining:
    """The protocol of the document: SGD without decay until nothing gets better; the best state is kept.

    Without validation examples what is watched is the objective on the training set (spirals: full batches, patience
    500); with them, their loss (images: patience 30, the learning rate falls after 30 epochs). Never test examples.

    Args:
        epochs: at most; with full batches an epoch is an iteration.
        patience: epochs without a better value before training stops.
        drop_after: epochs after which the learning rate falls to a tenth; never by default.
    """

    epochs: int = 5000
    patience: int = 500
    learning_rate: float = 0.1
    momentum: float = 0.5
    weight_decay: float = 0.0
    drop_after: int | None = None

    def optimizer(self, *modules: nn.Module) -> torch.optim.SGD:
        """For the parameters of these modules."""
        parameters = [parameter for module in modules for parameter in module.parameters()]
        return torch.optim.SGD(
            parameters, lr=self.learning_rate, momentum=self.momentum, weight_decay=self.weight_decay, foreach=True
        )

    def run(
        self,
        strategy: Strategy,
        optimizer: torch.optim.Optimizer,
        train: BatchSource,
        valid: BatchSource | None,
        *,
        seed: int,
        callbacks: Sequence[Callback] = (),
        warm_up: int = 0,
        checkpoints: CheckpointStore | None = None,
    ) -> History:
        """Trains by the protocol, or goes on from a checkpoint; the strategy's ``loss`` is what it minimises.

        Args:
            warm_up: epochs of which no state is kept.
        """
        watched = "loss" if valid is None else "valid_loss"
        stopping = EarlyStopping(watched, maximise=False, patience=self.patience, after=warm_up)
        hung = [*self.schedule(optimizer, len(train)), stopping, *callbacks]
        return fit(strategy, train, valid, epochs=self.epochs, seed=seed, callbacks=hung, checkpoints=checkpoints)

    def schedule(self, optimizer: torch.optim.Optimizer, steps_per_epoch: int) -> Iterable[Callback]:
        """The callback that lowers the learning rate, where the protocol does."""
        if self.drop_after is not None:
            rates = {0: self.learning_rate, self.drop_after * steps_per_epoch: self.learning_rate / 10}
            yield Schedule(optimizer, piecewise(rates))
