"""Predictions averaged over architectures."""

from __future__ import annotations

import torch
from torch import Tensor

from polyarch.distributions import ArchDistribution
from polyarch.objectives.expectation import support
from polyarch.supernets import Supernet


def mixture_log_probabilities(net: Supernet, q: ArchDistribution, inputs: Tensor) -> Tensor:
    """log sum_a q(a) p(y | x, a) for every class: (B, ...) -> (B, C), over the whole support of q."""
    architectures = support(q)
    log_probs = torch.log_softmax(net.forward_many(inputs, architectures), -1)  # (A, B, C)
    log_q = q.log_prob(architectures).to(log_probs)
    return torch.logsumexp(log_probs + log_q[:, None, None], dim=0)
