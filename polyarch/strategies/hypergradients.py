"""Gradients of q in a differentiable search: which loss is to fall, at which weights, and what depends on q.

L is the loss on training batches, V that on held-out batches, w the weights of the supernet, a the parameters of q, and
w_t(a) the weights after t steps of SGD. All of these fit together with every way to weigh options.

===================  =====================================  ==========================================================
gradient             of                                     used by
===================  =====================================  ==========================================================
`HeldOutLoss`        V(w, a), w fixed                       DARTS of first order, DrNAS, GDAS, SNAS
`UnrolledLoss`       V(w_T(a), a); T = 1 by default         DARTS of second order (exact, or by central differences)
`LossSum`            sum_t L_t(w_t, a), w_t fixed           SoTL-DARTS; with held-out batches SoVL-DARTS
`UnrolledLossSum`    sum_t L_t(w_t(a), a)                   the exact SoTL gradient
===================  =====================================  ==========================================================
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator

from polyarch.data import Batch
from polyarch.errors import InvalidInput
from polyarch.objectives import Tensors
from polyarch.spaces import Gates
from polyarch.strategies.mixed_supernet import MixedSupernet
from polyarch.strategies.strategy import finite, minimise


class Hypergradient(ABC):
    """Leaves the gradient of an outer loss in ``.grad`` of the parameters of q."""

    train_batches: int = 1
    held_out_batches: int = 0
    advances: bool = False
    """Whether the weights have taken the steps on the training batches afterwards; else they are as they were."""

    @abstractmethod
    def run(
        self,
        mixed: MixedSupernet,
        optimizer: torch.optim.SGD,
        train: Sequence[Batch],
        held_out: Sequence[Batch],
        generator: Generator,
    ) -> float:
        """The mean of the losses that are to fall. ``.grad`` of q is ``None`` before.

        Args:
            optimizer: of the weights.
        """


class HeldOutLoss(Hypergradient):
    """grad_a V(w, a) at the weights of now."""

    held_out_batches = 1

    def run(
        self,
        mixed: MixedSupernet,
        optimizer: torch.optim.SGD,
        train: Sequence[Batch],
        held_out: Sequence[Batch],
        generator: Generator,
    ) -> float:
        """No gradient of the weights is computed, and the statistics of normalisation layers see the batch."""
        gates = mixed.gates(generator)
        loss = mixed.loss_with(gates, held_out[0])
        value = finite(loss)
        # Choices behind which nothing is run, as after a hard draw, get a gradient of zero.
        found = torch.autograd.grad(loss, list(gates.values()), allow_unused=True, materialize_grads=True)
        backward_through(gates, dict(zip(gates, found, strict=True)))
        return value


@dataclass(frozen=True)
class LossSum(Hypergradient):
    """sum_t of the direct terms grad_a L_t(w_t, a) along T steps of the weights: it costs no more than training.

    Args:
        steps: T.
        on: ``train`` for the training losses of the steps themselves (SoTL), ``held_out`` for the losses of a held-out
            batch before every step (SoVL).
        repeat: whether the weights then go back to w_0, so that the T steps are repeated with the new architecture, as
            in the document. Without it the cost is half.
    """

    steps: int = 100
    on: Literal["train", "held_out"] = "train"
    repeat: bool = True

    def __post_init__(self) -> None:
        require_steps(self.steps)

    @property
    def train_batches(self) -> int:  # type: ignore[override]
        """T."""
        return self.steps

    @property
    def held_out_batches(self) -> int:  # type: ignore[override]
        """T for SoVL."""
        return self.steps if self.on == "held_out" else 0

    @property
    def advances(self) -> bool:  # type: ignore[override]
        """Without repetition."""
        return not self.repeat

    def run(
        self,
        mixed: MixedSupernet,
        optimizer: torch.optim.SGD,
        train: Sequence[Batch],
        held_out: Sequence[Batch],
        generator: Generator,
    ) -> float:
        """T steps of the optimiser; one backward pass gives the gradients of the weights and of q."""
        start = _State(mixed, optimizer) if self.repeat else None
        values = []
        try:
            for step, batch in enumerate(train):
                if self.on == "held_out":
                    values.append(HeldOutLoss().run(mixed, optimizer, train, held_out[step:], generator))
                    take_step(mixed, optimizer, batch, generator)
                else:
                    loss = mixed.loss_with(mixed.gates(generator), batch)
                    values.append(minimise(loss, optimizer))
        finally:
            if start is not None:
                start.restore()
        return sum(values) / len(values)


def take_step(mixed: MixedSupernet, optimizer: torch.optim.SGD, batch: Batch, generator: Generator) -> float:
    """One step of the weights with the architecture of now; q gets no gradient."""
    with torch.no_grad():
        gates = mixed.gates(generator)
    return minimise(mixed.loss_with(gates, batch), optimizer)


def backward_through(gates: Gates, gradients: Tensors) -> None:
    """Adds the gradient of the parameters of q, given that of the weights of a pass."""
    names = [name for name in gates if gates[name].requires_grad]
    torch.autograd.backward([gates[name] for name in names], [gradients[name] for name in names])


class _State:
    """A copy of weights, statistics and optimiser, to go back to."""

    def __init__(self, mixed: MixedSupernet, optimizer: torch.optim.SGD) -> None:
        self._network, self._optimizer = mixed.relaxation, optimizer
        self._tensors = {name: value.detach().clone() for name, value in mixed.relaxation.state_dict().items()}
        self._memory = copy.deepcopy(optimizer.state_dict())

    def restore(self) -> None:
        self._network.load_state_dict(self._tensors)
        self._optimizer.load_state_dict(self._memory)
        self._optimizer.zero_grad(set_to_none=True)


def require_steps(steps: int) -> None:
    """Refuses a sum over no steps."""
    if steps < 1:
        raise InvalidInput(f"Expected 1 or more steps of the weights. Got {steps}.")
