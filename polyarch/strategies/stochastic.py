"""Training of shared weights under architectures drawn from a fixed set.

Deng, Dong, Zhang and Zhu (2020), "Understanding and Exploring the Network with Stochastic Architectures", NeurIPS.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import torch
from torch import Generator

from polyarch.data import Batch, Inputs
from polyarch.distributions import ArchDistribution, Empirical
from polyarch.errors import InvalidInput
from polyarch.nn import skipping_zeros
from polyarch.spaces import Architecture, Gates, per_example_gates
from polyarch.strategies.strategy import CLASSES, Stateful, Strategy, measure, minimise, to_training
from polyarch.supernets import Supernet, WiredSupernet
from polyarch.supernets.supernet import require_gates_for
from polyarch.tasks import Task

DrawUnit = Literal["batch", "example"]
"""Whether a whole batch or every example of it gets its own architecture."""

AUXILIARY_WEIGHT = 0.1
"""The weight of the auxiliary classifier's loss, for networks that have one."""


def draw_for(inputs: Inputs, q: ArchDistribution, unit: DrawUnit, generator: Generator) -> Architecture | Gates:
    """One architecture from q for the whole batch, or gates (B, O) with one for every example."""
    if unit == "batch":
        return q.sample(1, generator=generator)[0]
    return per_example_gates(q.sample(len(inputs), generator=generator))


@dataclass(eq=False)
class StochasticArchitectures(Strategy):
    """Minimises E_a[loss(net(x, a), y)] over the shared weights, with architectures a ~ q from a fixed, finite set.

    With one draw per batch all its examples share an architecture: their features shift together from batch to batch,
    so that batch statistics differ from running averages. One draw per example avoids that. Choice blocks then run
    every operation only on the examples that drew it, and normalise over those (`skipping_zeros`).

    Args:
        q: the architectures drawn before training, usually all equally likely.
        draws: one architecture for every ``batch``, or one for every ``example`` of it.
    """

    net: Supernet
    q: Empirical
    optimizer: torch.optim.Optimizer
    _: KW_ONLY
    draws: DrawUnit = "example"
    task: Task = CLASSES

    def __post_init__(self) -> None:
        space, found = self.net.space, self.q.space
        if found != space:
            raise InvalidInput(f"Expected architectures of space {space.name!r}. Got those of {found.name!r}.")
        if self.draws == "example":
            require_gates_for("draws per example", self.net)

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Takes one gradient step on one batch; the ``loss`` includes that of an auxiliary classifier."""
        ((inputs, targets),) = train
        to_training(self.net)
        architecture = draw_for(inputs, self.q, self.draws, generator)
        with skipping_zeros(per_example=True):
            if isinstance(self.net, WiredSupernet) and self.net.auxiliary is not None:
                logits, auxiliary = self.net.with_auxiliary(inputs, architecture)
                loss = self.task.loss(logits, targets) + AUXILIARY_WEIGHT * self.task.loss(auxiliary, targets)
            else:
                loss = self.task.loss(self.net(inputs, architecture), targets)
        return {"loss": minimise(loss, self.optimizer)}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """The expected loss and metric of a single architecture, with running statistics.

        Every example gets its own draw, even if training draws once per batch: an unbiased estimate from one pass,
        however large the set is. A supernet without gates gets one draw per batch, which is noisier.
        """
        self.net.eval()
        unit: DrawUnit = "example" if self.net.takes_gates else "batch"
        with skipping_zeros(per_example=True):
            return measure(self.task, lambda x: self.net(x, draw_for(x, self.q, unit, generator)), batches)

    def parts(self) -> Mapping[str, Stateful]:
        """Supernet and optimiser; the set is fixed."""
        return {"net": self.net, "optimizer": self.optimizer}
