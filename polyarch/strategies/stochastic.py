"""Training of shared weights under architectures drawn from a fixed set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Generator

from polyarch.data import Batch
from polyarch.distributions import Empirical
from polyarch.errors import InvalidInput
from polyarch.nn import skipping_zeros
from polyarch.spaces import Architecture, Gates, per_example_gates
from polyarch.strategies.strategy import Loss, Stateful, Strategy, Tally, minimise, to_training
from polyarch.supernets import Supernet, WiredSupernet

DrawUnit = Literal["batch", "example"]
"""What gets an architecture of its own."""

AUXILIARY_WEIGHT = 0.1
"""Of the loss of an auxiliary classifier, where a network has one."""


class StochasticArchitectures(Strategy):
    """Minimises E_a[loss(net(x, a), y)] over the shared weights, with architectures a ~ q of a fixed, finite set.

    With one draw per batch all its examples share an architecture: their features shift together from batch to batch,
    so that statistics of single batches and running averages differ. With one draw per example they do not. Choice
    blocks then run every operation on the examples that drew it, and these are its batch (`skipping_zeros`).

    Args:
        q: the architectures drawn before training, usually all equally likely.
        draws: one architecture for every ``batch``, or one for every ``example`` of it.
    """

    def __init__(
        self,
        net: Supernet,
        q: Empirical,
        optimizer: torch.optim.Optimizer,
        *,
        draws: DrawUnit = "example",
        loss: Loss = F.cross_entropy,
    ) -> None:
        if q.space != net.space:
            raise InvalidInput(f"Expected architectures of space {net.space.name!r}. Got those of {q.space.name!r}.")
        self.net = net
        self.q = q
        self.optimizer = optimizer
        self.draws = draws
        self.loss = loss

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """One gradient step on one batch; measures ``loss``, with the part of an auxiliary classifier in it."""
        ((inputs, targets),) = train
        to_training(self.net)
        architecture = self._draw(self.draws, len(inputs), generator)
        with skipping_zeros(per_example=True):
            if isinstance(self.net, WiredSupernet) and self.net.auxiliary is not None:
                logits, auxiliary = self.net.with_auxiliary(inputs, architecture)
                loss = self.loss(logits, targets) + AUXILIARY_WEIGHT * self.loss(auxiliary, targets)
            else:
                loss = self.loss(self.net(inputs, architecture), targets)
        return {"loss": minimise(loss, self.optimizer)}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """The expected loss and accuracy of a single architecture, with running statistics.

        Every example is judged under one draw of its own, also where training has one draw per batch: it takes one pass
        however large the set is, without bias. It is not the mixture of the set, which `marginal_log_probabilities`
        gives.
        """
        self.net.eval()
        tally = Tally()
        with torch.no_grad():
            for inputs, targets in batches:
                with skipping_zeros(per_example=True):
                    logits = self.net(inputs, self._draw("example", len(inputs), generator))
                tally.add(logits, targets)
        return tally.means()

    def parts(self) -> Mapping[str, Stateful]:
        """Supernet and optimiser; the set is fixed."""
        return {"net": self.net, "optimizer": self.optimizer}

    def _draw(self, draws: DrawUnit, examples: int, generator: Generator) -> Architecture | Gates:
        if draws == "batch":
            return self.q.sample(1, generator=generator)[0]
        return per_example_gates(self.q.sample(examples, generator=generator))
