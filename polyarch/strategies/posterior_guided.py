"""Joint training of the kernels of a gated network and of the probabilities of dropping their slices.

Zhou, Sun, Luo, Zha and Zeng (2020), "Posterior-Guided Neural Architecture Search", arXiv:1906.09557. `GuidedDepth` adds
a posterior over the depth: Antorán, Allingham and Hernández-Lobato (2020), "Variational Depth Search in ResNets",
arXiv:2002.02797.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Generator, Tensor

from polyarch.data import Batch, Inputs
from polyarch.distributions import Categorical, DepthAndChannels, KeepDrop
from polyarch.errors import InvalidInput
from polyarch.objectives import SpikeSlab
from polyarch.strategies.strategy import CLASSES, Stateful, Strategy, finite, measure, to_training
from polyarch.supernets import GatedDepthSupernet, GatedSupernet
from polyarch.tasks import Task


@dataclass(eq=False)
class PosteriorGuided(Strategy):
    """Minimises the mean of loss(net(x_n; m, keep_n), y_n) plus a penalty over kernels m and drop probabilities p.

    Every example has its own draw keep_n from q, relaxed at a low temperature, so that one backward pass gives the
    gradients of m and p.

    Args:
        optimizer: holds the parameters of the supernet and of q. The penalty includes the weight decay of the gated
            kernels: an optimiser that also decays them, or q, would count it twice.
        penalty: knows N, the number of training examples.
        temperature: of the relaxed draws; the paper finds 1/5 better than 2/3.
    """

    net: GatedSupernet
    q: KeepDrop
    optimizer: torch.optim.Optimizer
    _: KW_ONLY
    penalty: SpikeSlab
    temperature: float = 0.2
    task: Task = CLASSES

    def __post_init__(self) -> None:
        net, q = self.net, self.q
        if q.space != net.slice_space or q.groups != tuple(net.groups):
            raise InvalidInput(
                f"Expected q over the groups {list(net.groups)} of space {net.slice_space.name!r}. "
                f"Got {list(q.groups)} of {q.space.name!r}."
            )
        if not self.temperature > 0:
            raise InvalidInput(f"Expected a temperature above 0. Got {self.temperature}.")

    @property
    def posterior(self) -> KeepDrop | DepthAndChannels:
        """The learned distribution over architectures."""
        return self.q

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """Takes one gradient step; measures ``loss``, the ``penalty`` in it, and ``kept``, the expected share."""
        ((inputs, targets),) = train
        to_training(self.net)
        keep = self.q.rsample_slices(len(inputs), temperature=self.temperature, generator=generator)
        with torch.no_grad():
            norms = self.net.square_norms()
            decay: list[float] = self.penalty.factors(self.q).tolist()
        penalty = self.penalty(norms, self.q)
        objective = self.objective(inputs, targets, keep) + penalty
        loss = finite(objective)
        self.optimizer.zero_grad(set_to_none=True)
        objective.backward()
        # For kernels the penalty is a weight decay; through autograd it would take several passes over all of them.
        self.net.add_decay(decay)
        self.optimizer.step()
        return {"loss": loss, "penalty": penalty.item(), "kept": self.q.keep_rate}

    def objective(self, inputs: Inputs, targets: Tensor, keep: Tensor) -> Tensor:
        """The loss without the penalty, a scalar: the mean over examples with slices weighted by keep, (B, C)."""
        return self.task.loss(self.net.forward_slices(inputs, keep), targets)

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """The expected loss and metric of a network drawn from q, with running statistics.

        Every example gets its own hard draw: an unbiased estimate from one pass.
        """
        self.net.eval()
        return measure(self.task, lambda inputs: self.drawn_logits(inputs, generator), batches)

    def drawn_logits(self, inputs: Inputs, generator: Generator) -> Tensor:
        """The output of the network with a hard draw of channels for every example."""
        return self.net.forward_slices(inputs, self.q.sample_slices(len(inputs), generator=generator))

    def parts(self) -> Mapping[str, Stateful]:
        """Supernet, q and optimiser."""
        return {"net": self.net, "q": self.posterior, "optimizer": self.optimizer}


class GuidedDepth(PosteriorGuided):
    """Minimises -(1/B) sum_n sum_d q(d) log p(y_n | x_n, d, keep_n) + KL(q(d) || prior) / N + penalty of channels.

    The sum over depths is exact, from one pass; every example has its own relaxed draw of channels. The posterior q is
    over depth and channels, the prior over the depth.

    Args:
        num_data: N, the number of training examples; that of the penalty by default, which may differ.
    """

    net: GatedDepthSupernet

    def __init__(
        self,
        net: GatedDepthSupernet,
        q: DepthAndChannels,
        prior: Categorical,
        optimizer: torch.optim.Optimizer,
        *,
        penalty: SpikeSlab,
        num_data: int | None = None,
        temperature: float = 0.2,
        task: Task = CLASSES,
    ) -> None:
        super().__init__(net, q.channels, optimizer, penalty=penalty, temperature=temperature, task=task)
        if q.space != net.space or prior.space != q.depth.space:
            raise InvalidInput(
                f"Expected q over {net.space.name!r} and a prior over its depths. "
                f"Got {q.space.name!r} and {prior.space.name!r}."
            )
        self.joint = q
        self.prior = prior
        self.num_data = num_data or penalty.num_data

    @property
    def posterior(self) -> DepthAndChannels:
        """The learned distribution over depth and channels."""
        return self.joint

    def objective(self, inputs: Inputs, targets: Tensor, keep: Tensor) -> Tensor:
        """The negative log-likelihood expected over depths, plus the divergence of q(d), a scalar."""
        values = self.task.log_likelihood(self.net.forward_slices(inputs, keep), targets)  # (D+1, B)
        expected = (self.joint.depth.log_probabilities().exp().to(values) * values.mean(-1)).sum()
        return self.joint.depth.kl(self.prior).to(expected) / self.num_data - expected

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Loss and metric of predictions averaged over depths, with one hard draw of channels per example."""
        self.net.eval()
        log_q = self.joint.depth.log_probabilities().detach()

        def predict(inputs: Inputs) -> Tensor:
            outputs = self.drawn_logits(inputs, generator)  # (D+1, B, O)
            return self.task.mix(outputs, log_q.to(outputs))

        return measure(self.task, predict, batches)
