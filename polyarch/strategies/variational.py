"""Joint training of the weights and of q by the evidence lower bound.

Antorán, Allingham and Hernández-Lobato (2020), "Variational Depth Search in ResNets", arXiv:2002.02797, for depths;
here for any space.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

import torch
from torch import Generator, Tensor

from polyarch.data import Batch
from polyarch.distributions import ArchDistribution
from polyarch.errors import InvalidInput
from polyarch.objectives import ExactExpectation, Expectation, elbo, support
from polyarch.strategies.strategy import CLASSES, Stateful, Strategy, measure, minimise, to_training
from polyarch.supernets import Supernet
from polyarch.tasks import Task


@dataclass(eq=False)
class Variational(Strategy):
    """Maximises (N/B) sum_n E_q[log p(y_n | x_n, w, a)] - KL(q || prior) over w and q together.

    The loss is the bound divided by -N, so that learning rates do not depend on the size of the data set.

    Args:
        optimizer: holds the parameters of the supernet and of q.
        num_data: N, the number of training examples.
        expectation: how E_q is estimated; exactly by default.
    """

    net: Supernet
    q: ArchDistribution
    prior: ArchDistribution
    optimizer: torch.optim.Optimizer
    _: KW_ONLY
    num_data: int
    expectation: Expectation = field(default_factory=ExactExpectation)
    task: Task = CLASSES

    def __post_init__(self) -> None:
        if self.num_data < 1:
            raise InvalidInput(f"Expected 1 or more training examples. Got {self.num_data}.")

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Takes one gradient step; measures ``loss``, ``elbo`` (nats, whole training set) and ``kl``."""
        (batch,) = train
        to_training(self.net)
        expected = self.expectation(self.net, self.q, batch, self.task.log_likelihood, generator=generator)
        kl = self.q.kl(self.prior)
        loss = minimise(-elbo(expected, kl, self.num_data) / self.num_data, self.optimizer)
        return {"loss": loss, "elbo": -loss * self.num_data, "kl": kl.item()}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Loss and metric of the predictions averaged over q, log sum_a q(a) p(y | x, a)."""
        self.net.eval()
        architectures = support(self.q)

        def predict(inputs: Tensor) -> Tensor:
            return self.task.mix(self.net.forward_many(inputs, architectures), self.q.log_prob(architectures))

        return measure(self.task, predict, batches)

    def parts(self) -> Mapping[str, Stateful]:
        """Supernet, q and optimiser; the prior is fixed."""
        return {"net": self.net, "q": self.q, "optimizer": self.optimizer}
