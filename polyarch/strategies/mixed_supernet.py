"""A supernet whose options are mixed by a learned distribution: the loss of a differentiable search.

The ways to weigh options come from DARTS: Liu et al. (2019), "DARTS: Differentiable Architecture Search",
arXiv:1806.09055; SNAS: Xie et al. (2019), "SNAS: Stochastic Neural Architecture Search", arXiv:1812.09926; GDAS: Dong
and Yang (2019), "Searching for a Robust Neural Architecture in Four GPU Hours", arXiv:1910.04465; DrNAS: Chen et al.
(2021), "DrNAS: Dirichlet Neural Architecture Search", arXiv:2006.10355. Soft draws of edges: Zela, Siems and Hutter
(2020), "NAS-Bench-1Shot1: Benchmarking and Dissecting One-shot Neural Architecture Search", arXiv:2001.10422.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, cast

from torch import Generator, Tensor
from torch.func import functional_call

from polyarch.data import Batch, Inputs
from polyarch.distributions import ArchDistribution
from polyarch.errors import InvalidInput
from polyarch.nn import skipping_zeros
from polyarch.objectives import Tensors
from polyarch.spaces import Architecture, Gates
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import Relaxation
from polyarch.tasks import Task

Weighing = Literal["mean", "soft", "straight_through", "chosen"]
"""How a pass weighs options.

- mean: by their probabilities (DARTS).
- soft: by a relaxed draw, of the Gumbel-softmax (SNAS) or of a Dirichlet (DrNAS).
- straight_through: by a hard draw with the gradient of the soft one; runs all options.
- chosen: by a hard draw whose gradient goes to the chosen option; runs only that one (GDAS).
"""


@dataclass
class MixedSupernet:
    """A relaxed supernet under q.

    Args:
        q: over ``relaxation.space``.
        weighing: how a pass weighs options; all but ``mean`` draw anew for every pass.
        temperature: of relaxed draws; schedules may set it between steps.
    """

    relaxation: Relaxation
    q: ArchDistribution
    weighing: Weighing = "mean"
    temperature: float = 1.0
    task: Task = CLASSES

    def __post_init__(self) -> None:
        if self.q.space != self.relaxation.space:
            raise InvalidInput(
                f"Expected q over the choices of {self.relaxation.space.name!r}. Got one over {self.q.space.name!r}."
            )

    def gates(self, generator: Generator) -> Gates:
        """The option weights of one pass, differentiable in q: choice -> (O,).

        A hard draw would leave one edge into a node, so choices between edges are drawn softly, as in the search by
        GDAS of NAS-Bench-1Shot1.
        """
        if self.weighing == "mean":
            return self.q.mean()
        gates = self.q.rsample(temperature=self.temperature, mode=self.weighing, generator=generator)
        edges = self.relaxation.edges_kept
        if self.weighing == "soft" or not edges:
            return gates
        soft = self.q.rsample(temperature=self.temperature, mode="soft", generator=generator)
        return {name: soft[name] if name in edges else gate for name, gate in gates.items()}

    def logits(self, inputs: Inputs, gates: Gates, weights: Tensors | None = None) -> Tensor:
        """(B, ...) -> (B, classes), with options mixed by the given gates.

        Args:
            weights: replacements for parameters of the network, by name. The statistics of normalisation layers then
                stay unchanged.
        """
        # A straight-through draw needs the outputs of options of weight zero for its gradient.
        with nullcontext() if self.weighing == "straight_through" else skipping_zeros():
            if weights is None:
                return cast(Tensor, self.relaxation(inputs, gates))
            buffers = {name: buffer.clone() for name, buffer in self.relaxation.named_buffers()}
            return cast(Tensor, functional_call(self.relaxation, {**buffers, **weights}, (inputs, gates)))

    def loss_with(self, gates: Gates, batch: Batch, weights: Tensors | None = None) -> Tensor:
        """The loss of a batch with options mixed by the given gates; see `logits`."""
        return self.task.loss(self.logits(batch.inputs, gates, weights), batch.targets)

    def architecture(self) -> Architecture:
        """The most probable option of every choice; in DARTS and 1shot1 cells, the strongest edges into every node."""
        return self.relaxation.architecture({name: gate.detach() for name, gate in self.q.mean().items()})
