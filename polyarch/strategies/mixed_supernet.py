"""A supernet whose options are mixed by a learned distribution: the loss that a differentiable search goes by."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, cast

import torch.nn.functional as F
from torch import Generator, Tensor
from torch.func import functional_call

from polyarch.data import Batch
from polyarch.distributions import ArchDistribution
from polyarch.errors import InvalidInput
from polyarch.nn import skipping_zeros
from polyarch.objectives import Tensors
from polyarch.spaces import Architecture, Gates
from polyarch.strategies.strategy import Loss
from polyarch.supernets import Relaxation

Weighing = Literal["mean", "soft", "straight_through", "chosen"]
"""How options are weighed in a pass.

- mean: by their probabilities (DARTS).
- soft: by a relaxed draw: of Gumbel-softmax (SNAS), or of a Dirichlet (DrNAS).
- straight_through: by a hard draw with the gradient of the soft one; all options are run.
- chosen: by a hard draw whose gradient goes to the chosen option; only this is run (GDAS).
"""


@dataclass
class MixedSupernet:
    """The relaxed supernet under q.

    Args:
        q: over ``relaxation.space``.
        weighing: how options are weighed in a pass; all but the mean draw anew for every pass.
        temperature: of relaxed draws. Schedules may set it between steps.
    """

    relaxation: Relaxation
    q: ArchDistribution
    weighing: Weighing = "mean"
    temperature: float = 1.0
    loss: Loss = F.cross_entropy

    def __post_init__(self) -> None:
        if self.q.space != self.relaxation.space:
            raise InvalidInput(
                f"Expected q over the choices of {self.relaxation.space.name!r}. Got one over {self.q.space.name!r}."
            )

    def gates(self, generator: Generator) -> Gates:
        """The weights of one pass, differentiable in q: choice -> (O,)."""
        if self.weighing == "mean":
            return self.q.mean()
        return self.q.rsample(temperature=self.temperature, mode=self.weighing, generator=generator)

    def logits(self, inputs: Tensor, gates: Gates, weights: Tensors | None = None) -> Tensor:
        """(B, ...) -> (B, classes), mixed by given gates.

        Args:
            weights: by name, instead of those of the network, which stand in for what is left out. The statistics of
                normalisation layers then stay as they are.
        """
        # A straight-through draw needs the outputs of options of weight zero for its gradient.
        with nullcontext() if self.weighing == "straight_through" else skipping_zeros():
            if weights is None:
                return cast(Tensor, self.relaxation(inputs, gates))
            buffers = {name: buffer.clone() for name, buffer in self.relaxation.named_buffers()}
            return cast(Tensor, functional_call(self.relaxation, {**buffers, **weights}, (inputs, gates)))

    def loss_with(self, gates: Gates, batch: Batch, weights: Tensors | None = None) -> Tensor:
        """The loss of a batch, mixed by given gates; see `logits`."""
        return self.loss(self.logits(batch.inputs, gates, weights), batch.targets)

    def architecture(self) -> Architecture:
        """What q points at: of every choice its most probable option, of DARTS cells the two strongest edges."""
        return self.relaxation.architecture({name: gate.detach() for name, gate in self.q.mean().items()})
