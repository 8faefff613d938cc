"""The evidence lower bound over architectures, and its optimum in closed form.

Antorán, Allingham and Hernández-Lobato (2020), "Variational Depth Search in ResNets", arXiv:2002.02797, for depths.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
