"""Learning from unlabelled examples: two random passes over the same input should give the same answer.

The Pi model of Laine and Aila (2017), "Temporal Ensembling for Semi-Supervised Learning", arXiv:1610.02242, with random
wirings in place of dropout: Deng, Dong, Zhang and Zhu (2020), "Understanding and Exploring the Network with Stochastic
Architectures", NeurIPS.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from polyarch.data import Batch
from polyarch.data.named_inputs import joined
from polyarch.distributions import ArchDistribution
from polyarch.errors import InvalidInput
from polyarch.nn import skipping_zeros
from polyarch.nn.dropout import drawing_from, dropout_layers
from polyarch.strategies.stochastic import DrawUnit, draw_for
from polyarch.strategies.strategy import CLASSES, Stateful, Strategy, measure, minimise, to_training
from polyarch.supernets import Supernet
from polyarch.supernets.supernet import require_gates_for
from polyarch.tasks import Task


class RandomPass(ABC):
    """A network whose passes over the same input differ randomly, at least in training mode."""

    module: nn.Module
    """The network that is trained."""

    @abstractmethod
    def logits(self, inputs: Any, generator: Generator) -> Tensor:
        """One random pass: (B, ...) -> (B, C)."""


class WiringPass(RandomPass):
    """A supernet under architectures drawn from a fixed q.

    Args:
        q: such as an `Empirical` over the finite set of wirings that is trained.
        draws: one architecture for every ``example``, or one for the whole ``batch``, which shifts its statistics.
    """

    def __init__(self, net: Supernet, q: ArchDistribution, *, draws: DrawUnit = "example") -> None:
        if draws == "example":
            require_gates_for("draws per example", net)
        self.module = self.net = net
        self.q = q
        self.draws: DrawUnit = draws

    def logits(self, inputs: Any, generator: Generator) -> Tensor:
        """A pass under a new draw, in training and in evaluation mode."""
        with skipping_zeros(per_example=True):  # every operation runs on the examples that drew it
            output: Tensor = self.net(inputs, draw_for(inputs, self.q, self.draws, generator))
        return output


class DropoutPass(RandomPass):
    """A plain network with dropout layers (the Pi model); in evaluation mode all its passes are equal."""

    def __init__(self, network: nn.Module) -> None:
        if next(dropout_layers(network), None) is None:
            raise InvalidInput("Expected a network with dropout layers of p above 0. Got one without.")
        self.module = network

    def logits(self, inputs: Any, generator: Generator) -> Tensor:
        """A pass whose masks come from torch's global generator, which `Consistency` seeds."""
        output: Tensor = self.module(inputs)
        return output


@dataclass(eq=False)
class Consistency(Strategy):
    """Minimises the loss on labelled examples plus the distance between two random passes over unlabelled ones.

        mean_n loss(f(x_n, r_n), y_n) + weight ramp(i) (1 / BC) sum_m ||f(u_m, r_m) - f(u'_m, r'_m)||^2

    for logits f, labelled (x, y), two views u and u' of unlabelled examples (B of them, C classes), and independent
    draws r of the random pass. The first pass is over x and u together, so that normalisation layers see both; the
    second, over u', gets no gradient. The ramp lets the first term dominate early on, in step i = 0, 1, ...:

        ramp(i) = exp(-5 (1 - t)^2),    t = min(i / ramp_steps, 1)

    from exp(-5) = 0.007 to 1. The unlabelled examples are the ``held_out`` batches of `polyarch.training.fit`, one per
    step, with both views of every example one after the other (`Batches` with two views); their targets are ignored.
    They may include the labelled examples.

    Args:
        passes: the source of randomness, `WiringPass` or `DropoutPass`.
        weight: of the distance, after the ramp.
        ramp_steps: 0 for the full weight from the start.
    """

    held_out_per_step = 1

    passes: RandomPass
    optimizer: torch.optim.Optimizer
    _: KW_ONLY
    ramp_steps: int
    weight: float = 20.0
    task: Task = CLASSES

    def __post_init__(self) -> None:
        weight, steps = self.weight, self.ramp_steps
        if not 0 <= weight < math.inf or steps < 0:
            raise InvalidInput(
                f"Expected a finite weight of 0 or more and 0 or more ramp steps. Got {weight} and {steps}."
            )
        self._done = _StepCounter()

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Takes one gradient step; measures ``loss`` and its two terms before weighting."""
        (batch,) = train
        views = held_out[0].inputs
        labelled, examples = len(batch.targets), len(views) // 2
        to_training(self.passes.module)
        with drawing_from(generator):
            logits = self.passes.logits(joined([batch.inputs, views[:examples]]), generator)
            with torch.no_grad():
                other = self.passes.logits(views[examples : 2 * examples], generator)
        supervised = self.task.loss(logits[:labelled], batch.targets)
        distance = (logits[labelled:] - other).square().mean()
        loss = minimise(supervised + self.weight * self.ramp() * distance, self.optimizer)
        self._done.count += 1
        return {"loss": loss, "supervised_loss": supervised.item(), "distance": distance.item()}

    def ramp(self) -> float:
        """The share of the weight that the next step uses."""
        share = min(self._done.count / self.ramp_steps, 1.0) if self.ramp_steps else 1.0
        return math.exp(-5 * (1 - share) ** 2)

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Loss and metric in evaluation mode: the mean over random wirings, or the network without dropout."""
        self.passes.module.eval()
        return measure(self.task, lambda inputs: self.passes.logits(inputs, generator), batches)

    def parts(self) -> Mapping[str, Stateful]:
        """Network, optimiser and the number of steps taken, which sets the ramp."""
        return {"network": self.passes.module, "optimizer": self.optimizer, "steps": self._done}


@dataclass
class _StepCounter:
    """The number of steps taken, for checkpoints."""

    count: int = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        self.count = state_dict["count"]
