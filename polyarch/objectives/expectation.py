"""Expectations under q: of log-likelihoods, with the evidence lower bound, and of probabilities, for prediction.

Antorán, Allingham and Hernández-Lobato (2020), "Variational Depth Search in ResNets", arXiv:2002.02797, for depths;
here for any space.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from polyarch.data import Batch, Inputs
from polyarch.distributions import ArchDistribution, FiniteDistribution
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


def categorical_log_likelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """log softmax(logits) at the target class: (..., B, C), (B,) -> (..., B)."""
    log_probs = torch.log_softmax(logits, dim=-1)
    index = targets.expand(logits.shape[:-1]).unsqueeze(-1)
    return log_probs.gather(-1, index).squeeze(-1)


LogLikelihood = Callable[[Tensor, Tensor], Tensor]
"""log p(y_n | x_n) from outputs (..., B, O) and targets (B, ...): (..., B)."""


class Expectation(ABC):
    """Estimates the expected log-likelihood of a batch, differentiably in the weights and in q."""

    @abstractmethod
    def __call__(
        self,
        net: Supernet,
        q: ArchDistribution,
        batch: Batch,
        log_likelihood: LogLikelihood = categorical_log_likelihood,
        *,
        generator: Generator,
    ) -> Tensor:
        """(1/B) sum_n E_q[log p(y_n | x_n, a)], a scalar."""


class ExactExpectation(Expectation):
    """sum_a q(a) log p(y | x, a) over all architectures of q, for small supports and supernets that share prefixes."""

    def __call__(
        self,
        net: Supernet,
        q: ArchDistribution,
        batch: Batch,
        log_likelihood: LogLikelihood = categorical_log_likelihood,
        *,
        generator: Generator,
    ) -> Tensor:
        """The exact expectation; the generator is not used."""
        architectures = support(q)
        values = log_likelihood(net.forward_many(batch.inputs, architectures), batch.targets)  # (A, B)
        return (q.log_prob(architectures).exp().to(values) * values.mean(-1)).sum()


@dataclass(frozen=True)
class SampledExpectation(Expectation):
    """The mean over S draws, with the score-function gradient for q.

    The surrogate is mean_s [ f_s + (log q(a_s) - [log q(a_s)]) (f_s - b_s) ] where [.] stops the gradient and the
    baseline b_s is the mean of the other draws (0 for a single draw). Its value and gradient are unbiased: Williams
    (1992), "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning".
    """

    samples: int = 1

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise InvalidInput(f"Expected 1 or more samples. Got {self.samples}.")

    def __call__(
        self,
        net: Supernet,
        q: ArchDistribution,
        batch: Batch,
        log_likelihood: LogLikelihood = categorical_log_likelihood,
        *,
        generator: Generator,
    ) -> Tensor:
        """The estimate from S draws of the generator."""
        architectures = q.sample(self.samples, generator=generator)
        outputs = net.forward_many(batch.inputs, architectures)
        values = log_likelihood(outputs, batch.targets).mean(-1)  # (S,)
        if not any(parameter.requires_grad for parameter in q.parameters()):
            return values.mean()
        log_q = q.log_prob(architectures).to(values)
        fixed = values.detach()
        others = (fixed.sum() - fixed) / (self.samples - 1) if self.samples > 1 else torch.zeros_like(fixed)
        return (values + (log_q - log_q.detach()) * (fixed - others)).mean()


def elbo(expected_log_likelihood: Tensor, kl: Tensor, num_data: int) -> Tensor:
    """N * E_q[mean log-likelihood] - KL(q || prior), in nats for the whole training set.

    Args:
        expected_log_likelihood: the mean over a batch of E_q[log p(y_n | x_n, a)], (...).
        kl: KL(q || prior), (...).
        num_data: N, the number of training examples.
    """
    return num_data * expected_log_likelihood - kl.to(expected_log_likelihood)


def log_posterior(log_likelihoods: Tensor, log_prior: Tensor) -> Tensor:
    """log q*(a) = log softmax(log-likelihood + log prior), (A,), which maximises the bound for fixed weights.

    Args:
        log_likelihoods: log p(D | a) of every architecture, summed over the data, (A,).
        log_prior: log prior(a), (A,).
    """
    return torch.log_softmax(log_likelihoods + log_prior, dim=0)


def support(q: ArchDistribution) -> Sequence[Architecture]:
    """All architectures that q may sample."""
    return q.architectures if isinstance(q, FiniteDistribution) else list(q.space.enumerate())


def log_marginal(log_probabilities: Tensor, log_weights: Tensor) -> Tensor:
    """log sum_k w_k p_k, finite even where a probability rounds to 0: (K, B, C), (K,) -> (B, C)."""
    return torch.logsumexp(log_probabilities + log_weights.to(log_probabilities)[:, None, None], dim=0)


def marginal_log_probabilities(net: Supernet, q: ArchDistribution, inputs: Inputs) -> Tensor:
    """log sum_a q(a) p(y | x, a) for every class, over the whole support of q: (B, ...) -> (B, C)."""
    architectures = support(q)
    log_probs = torch.log_softmax(net.forward_many(inputs, architectures), -1)  # (A, B, C)
    return log_marginal(log_probs, q.log_prob(architectures))
