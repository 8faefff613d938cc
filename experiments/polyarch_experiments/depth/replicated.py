"""Training of several networks side by side: what each does is what it would do alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Generator, Tensor, nn

from polyarch.data import Batch
from polyarch.errors import NotFiniteError
from polyarch.objectives import elbo
from polyarch.strategies.strategy import CLASSES, Stateful, Strategy, measure, to_training
from polyarch_experiments.depth.replicas import FullyConnectedReplicas


def loss_name(replica: int) -> str:
    """Under which a step reports the loss of one replica."""
    return f"loss {replica}"


class Replicated(Strategy):
    """R trainings in one: the sum of losses that share no weights has the gradient of each.

    Batches are those of `polyarch.data.StackedBatches`. The optimiser must treat every weight by itself, as SGD does.
    """

    def __init__(self, net: FullyConnectedReplicas, optimizer: torch.optim.Optimizer) -> None:
        self.net = net
        self.optimizer = optimizer

    @abstractmethod
    def losses(self, batch: Batch) -> Tensor:
        """What each replica minimises, (R,)."""

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        """One gradient step of every replica; measures ``loss``, the mean, and the loss of each."""
        (batch,) = train
        to_training(self.net)
        losses = self.losses(batch)
        values: list[float] = losses.tolist()
        if not losses.isfinite().all():
            raise NotFiniteError(f"Expected finite training losses. Got {values}; try a lower learning rate.")
        self.optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()
        self.optimizer.step()
        named = {loss_name(replica): value for replica, value in enumerate(values)}
        return {"loss": sum(values) / len(values), **named}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        """Means over examples and replicas."""
        self.net.eval()
        flat = (Batch(batch.inputs, batch.targets.flatten()) for batch in batches)
        return measure(CLASSES, lambda inputs: self.log_probabilities(inputs).flatten(0, 1), flat)

    @abstractmethod
    def log_probabilities(self, inputs: Tensor) -> Tensor:
        """What each replica predicts: (R, B, ...) -> (R, B, classes)."""

    def parts(self) -> Mapping[str, Stateful]:
        """Networks and optimiser."""
        return {"net": self.net, "optimizer": self.optimizer}


class ReplicatedDepths(nn.Module):
    """R distributions over the depths, q_r = softmax(logits_r), and the log prior that all of them share.

    Args:
        log_prior: (D+1,).
    """

    log_prior: Tensor

    def __init__(self, replicas: int, log_prior: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(1, replicas, len(log_prior), dtype=log_prior.dtype))
        self.register_buffer("log_prior", log_prior)

    def log_probabilities(self) -> Tensor:
        """log q, (R, D+1)."""
        return torch.log_softmax(self.logits[0], -1)


class ReplicatedVariational(Replicated):
    """`Variational` with exact expectations for every replica: each has its own weights and its own q.

    Args:
        optimizer: holds the parameters of the networks and of q.
        num_data: N, the number of training examples of each.
    """

    def __init__(
        self, net: FullyConnectedReplicas, q: ReplicatedDepths, optimizer: torch.optim.Optimizer, *, num_data: int
    ) -> None:
        super().__init__(net, optimizer)
        self.q = q
        self.num_data = num_data

    def losses(self, batch: Batch) -> Tensor:
        """Minus the bound of each replica, divided by N."""
        values = self.net.log_likelihoods(batch.inputs, batch.targets)  # (R, D+1, B)
        log_q = self.q.log_probabilities()
        q = log_q.exp()
        kl = (q * (log_q - self.q.log_prior)).sum(-1)
        return -elbo((q * values.mean(-1)).sum(-1), kl, self.num_data) / self.num_data

    def log_probabilities(self, inputs: Tensor) -> Tensor:
        """Of the mixture over q."""
        log_probs = torch.log_softmax(self.net(inputs), -1)  # (R, D+1, B, C)
        return torch.logsumexp(log_probs + self.q.log_probabilities()[:, :, None, None], 1)

    def parts(self) -> Mapping[str, Stateful]:
        """Networks, distributions and optimiser."""
        return {**super().parts(), "q": self.q}


class ReplicatedSupervised(Replicated):
    """`Supervised` for every replica, at its full depth."""

    def losses(self, batch: Batch) -> Tensor:
        """The mean cross-entropy of each replica."""
        return -self.net.log_likelihoods(batch.inputs, batch.targets, [self.net.max_depth]).mean((1, 2))

    def log_probabilities(self, inputs: Tensor) -> Tensor:
        """At full depth."""
        return torch.log_softmax(self.net(inputs, [self.net.max_depth])[:, 0], -1)
