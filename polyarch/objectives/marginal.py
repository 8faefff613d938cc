"""Predictions averaged over architectures."""

from __future__ import annotations

import torch
from torch import Tensor

from polyarch.distributions import ArchDistribution
from polyarch.objectives.expectation import support
from polyarch.supernets import Supernet


def log_marginal(log_probabilities: Tensor, log_weights: Tensor) -> Tensor:
    """log sum_k w_k p_k, finite also where a probability rounds to 0: (K, B, C), (K,) -> (B, C)."""
    return torch.logsumexp(log_probabilities + log_weights.to(log_probabilities)[:, None, None], dim=0)


def marginal_log_probabilities(net: Supernet, q: ArchDistribution, inputs: Tensor) -> Tensor:
    """log sum_a q(a) p(y | x, a) for every class: (B, ...) -> (B, C), over the whole support of q."""
    architectures = support(q)
    log_probs = torch.log_softmax(net.forward_many(inputs, architectures), -1)  # (A, B, C)
    return log_marginal(log_probs, q.log_prob(architectures))
