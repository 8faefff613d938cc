"""Gradients of q in a differentiable search: of which loss, at which weights, and through what.

L is the loss on training batches, V that on held-out batches, w the weights of the supernet, a the parameters of q, and
w_t(a) the weights after t steps of SGD. Every hypergradient works with every way to weigh options.

===================  =====================================  ==========================================================
hypergradient        of                                     used by
===================  =====================================  ==========================================================
`HeldOutLoss`        V(w, a), w fixed                       first-order DARTS, DrNAS, GDAS, SNAS
`UnrolledLoss`       V(w_T(a), a); T = 1 by default         second-order DARTS (exact, or by central differences)
`LossSum`            sum_t L_t(w_t, a), w_t fixed           SoTL-DARTS; with held-out batches SoVL-DARTS
`UnrolledLossSum`    sum_t L_t(w_t(a), a)                   the exact SoTL gradient
===================  =====================================  ==========================================================

DARTS: Liu et al. (2019), "DARTS: Differentiable Architecture Search", arXiv:1806.09055. SoTL-DARTS and SoVL-DARTS:
"Improving weight-sharing Neural Architecture Search with a marginal likelihood estimator" (MSc thesis, University of
Oxford, 2021).
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator
from torch.optim import SGD

from polyarch.data import Batch
from polyarch.errors import InvalidInput
from polyarch.objectives import Tensors
from polyarch.spaces import Gates
from polyarch.strategies.mixed_supernet import MixedSupernet
from polyarch.strategies.strategy import finite, minimise

Batches = Sequence[Batch]


class Hypergradient(ABC):
    """Leaves the gradient of an outer loss in ``.grad`` of the parameters of q."""

    steps: int = 1
    """T, the number of weight steps, with one training batch each."""
    held_out_batches: int = 0
    advances: bool = False
    """Whether the weights have taken the T steps afterwards; otherwise they are unchanged."""

    @abstractmethod
    def run(
        self, mixed: MixedSupernet, optimizer: SGD, train: Batches, held_out: Batches, generator: Generator
    ) -> float:
        """Returns the mean of the outer losses; ``.grad`` of q must be ``None`` before.

        Args:
            optimizer: of the weights.
        """


class HeldOutLoss(Hypergradient):
    """grad_a V(w, a) at the current weights."""

    held_out_batches = 1

    def run(
        self, mixed: MixedSupernet, optimizer: SGD, train: Batches, held_out: Batches, generator: Generator
    ) -> float:
        """Computes no gradient of the weights; the statistics of normalisation layers see the batch."""
        gates = mixed.gates(generator)
        loss = mixed.loss_with(gates, held_out[0])
        value = finite(loss)
        # Choices that lead to no operation, as after a hard draw, get a gradient of zero.
        found = torch.autograd.grad(loss, list(gates.values()), allow_unused=True, materialize_grads=True)
        backward_through(gates, dict(zip(gates, found, strict=True)))
        return value


@dataclass(frozen=True)
class LossSum(Hypergradient):
    """sum_t of the direct terms grad_a L_t(w_t, a) along T steps of the weights, at no more than the cost of training.

    Args:
        steps: T.
        on: ``train`` for the training losses of the steps themselves (SoTL), ``held_out`` for the loss of a held-out
            batch before every step (SoVL).
        repeat: whether the weights then return to w_0 and repeat the T steps with the new architecture, as in the
            thesis. Without it the cost is half.
    """

    steps: int = 100
    on: Literal["train", "held_out"] = "train"
    repeat: bool = True

    def __post_init__(self) -> None:
        require_steps(self.steps)

    @property
    def held_out_batches(self) -> int:  # type: ignore[override]
        """T for SoVL, none for SoTL."""
        return self.steps if self.on == "held_out" else 0

    @property
    def advances(self) -> bool:  # type: ignore[override]
        """True without repetition."""
        return not self.repeat

    def run(
        self, mixed: MixedSupernet, optimizer: SGD, train: Batches, held_out: Batches, generator: Generator
    ) -> float:
        """Takes T optimiser steps; one backward pass gives the gradients of the weights and of q."""
        start = _Snapshot(mixed, optimizer) if self.repeat else None
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


def take_step(mixed: MixedSupernet, optimizer: SGD, batch: Batch, generator: Generator) -> float:
    """One step of the weights under the current q, which gets no gradient."""
    with torch.no_grad():
        gates = mixed.gates(generator)
    return minimise(mixed.loss_with(gates, batch), optimizer)


def backward_through(gates: Gates, gradients: Tensors) -> None:
    """Adds to the gradient of the parameters of q, given the gradient of the gates of a pass."""
    names = [name for name in gates if gates[name].requires_grad]
    torch.autograd.backward([gates[name] for name in names], [gradients[name] for name in names])


class _Snapshot:
    """A copy of weights, statistics and optimiser state to return to."""

    def __init__(self, mixed: MixedSupernet, optimizer: SGD) -> None:
        self._network, self._optimizer = mixed.relaxation, optimizer
        self._tensors = {name: value.detach().clone() for name, value in mixed.relaxation.state_dict().items()}
        self._memory = copy.deepcopy(optimizer.state_dict())

    def restore(self) -> None:
        self._network.load_state_dict(self._tensors)
        self._optimizer.load_state_dict(self._memory)
        self._optimizer.zero_grad(set_to_none=True)


def require_steps(steps: int) -> None:
    """Requires 1 or more steps."""
    if steps < 1:
        raise InvalidInput(f"Expected 1 or more steps of the weights. Got {steps}.")
