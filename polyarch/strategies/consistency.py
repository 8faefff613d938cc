"""Learning from examples without labels: two random passes over the same input should give the same answer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from polyarch.data import Batch
from polyarch.distributions import ArchDistribution
from polyarch.errors import InvalidInput
from polyarch.nn import skipping_zeros
from polyarch.nn.dropout import drawing_from, dropout_layers
from polyarch.spaces import Architecture, Gates, per_example_gates
from polyarch.strategies.strategy import Loss, Stateful, Strategy, Tally, minimise, to_training
from polyarch.supernets import Supernet


class RandomPass(ABC):
    """A network whose passes over the same input differ by chance, at least in training mode."""

    module: nn.Module
    """What is trained."""

    @abstractmethod
    def logits(self, inputs: Tensor, generator: Generator) -> Tensor:
        """One random pass: (B, ...) -> (B, C)."""


class WiringPass(RandomPass):
    """A supernet under architectures drawn from a fixed q: one for every example, or one for the whole batch.

    Args:
        q: such as an `Empirical` over the finite set of wirings that is trained.
        per_example: else all examples of a pass share one, and with it a shift of their batch statistics.
    """

    def __init__(self, net: Supernet, q: ArchDistribution, *, per_example: bool = True) -> None:
        self.module = self.net = net
        self.q = q
        self.per_example = per_example

    def logits(self, inputs: Tensor, generator: Generator) -> Tensor:
        """Under a new draw, in training and in evaluation mode."""
        with skipping_zeros(per_example=True):  # every operation runs on the examples that drew it
            output: Tensor = self.net(inputs, self._drawn(inputs, generator))
        return output

    def _drawn(self, inputs: Tensor, generator: Generator) -> Architecture | Gates:
        if not self.per_example:
            return self.q.sample(1, generator=generator)[0]
        return per_example_gates(self.q.sample(len(inputs), generator=generator))


class DropoutPass(RandomPass):
    """A plain network with dropout layers (the Pi model); in evaluation mode its passes are all the same."""

    def __init__(self, network: nn.Module) -> None:
        if next(dropout_layers(network), None) is None:
            raise InvalidInput("Expected a network with dropout layers of p above 0. Got one without.")
        self.module = network

    def logits(self, inputs: Tensor, generator: Generator) -> Tensor:
        """Masks come from torch's global generator, which `Consistency` seeds."""
        output: Tensor = self.module(inputs)
        return output


class Consistency(Strategy):
    """Minimises the loss on labelled examples plus the distance of two random passes over unlabelled ones.

        mean_n loss(f(x_n, r_n), y_n) + weight ramp(i) (1 / BC) sum_m ||f(u_m, r_m) - f(u_m, r'_m)||^2

    for logits f, labelled (x, y), unlabelled u (B of them, C classes), and independent draws r of the random pass.
    Both passes over u get a gradient. The ramp lets the first term lead until there is something to agree about, in
    step i = 0, 1, ...:

        ramp(i) = exp(-5 (1 - t)^2),    t = min(i / ramp_steps, 1)

    from exp(-5) = 0.007 to 1. The unlabelled examples are the ``held_out`` batches of `polyarch.training.fit`, one per
    step; their targets are ignored. Labelled examples may be among them.

    Args:
        passes: what makes two passes differ, `WiringPass` or `DropoutPass`.
        weight: of the distance, once the ramp is done.
        ramp_steps: 0 for the full weight from the start.
    """

    held_out_per_step = 1

    def __init__(
        self,
        passes: RandomPass,
        optimizer: torch.optim.Optimizer,
        *,
        ramp_steps: int,
        weight: float = 20.0,
        loss: Loss = F.cross_entropy,
    ) -> None:
        if not 0 <= weight < math.inf or ramp_steps < 0:
            raise InvalidInput(
                f"Expected a finite weight of 0 or more and 0 or more steps of the ramp. Got {weight} and {ramp_steps}."
            )
        self.passes = passes
        self.optimizer = optimizer
        self.ramp_steps = ramp_steps
        self.weight = weight
        self.loss = loss
        self._done = _StepsDone()

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """One gradient step; measures ``loss``, and what it is made of before weighting."""
        (batch,) = train
        unlabelled = held_out[0].inputs
        to_training(self.passes.module)
        with drawing_from(generator):
            supervised = self.loss(self.passes.logits(batch.inputs, generator), batch.targets)
            first, second = (self.passes.logits(unlabelled, generator) for _ in range(2))
        distance = F.mse_loss(first, second)
        loss = minimise(supervised + self.weight * self.ramp() * distance, self.optimizer)
        self._done.count += 1
        return {"loss": loss, "supervised_loss": supervised.item(), "distance": distance.item()}

    def ramp(self) -> float:
        """The share of the weight that the next step uses."""
        share = min(self._done.count / self.ramp_steps, 1.0) if self.ramp_steps else 1.0
        return math.exp(-5 * (1 - share) ** 2)

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """In evaluation mode: the mean over random wirings, or the network without dropout."""
        self.passes.module.eval()
        tally = Tally()
        with torch.no_grad():
            for inputs, targets in batches:
                tally.add(self.passes.logits(inputs, generator), targets)
        return tally.means()

    def parts(self) -> Mapping[str, Stateful]:
        """Network, optimiser and the place on the ramp."""
        return {"network": self.passes.module, "optimizer": self.optimizer, "steps": self._done}


class _StepsDone:
    """How many steps were taken, for checkpoints."""

    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        self.count = state_dict["count"]
