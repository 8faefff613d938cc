"""Weights of a mixture's members, from what the members say about validation examples.

The members must not have seen these examples, and there should be many more examples than members. A member with next
to no weight costs a forward pass all the same. Who wants to save that leaves it out: `Mixture` normalises the others.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.objectives import categorical_log_likelihood
from polyarch.predictive.checks import check_labels, check_outputs

LEAST_WEIGHT = torch.finfo(torch.float32).tiny
"""What weights are raised to: `Mixture` takes their logarithm in single precision, where less would round to 0.

In double precision it vanishes next to 1, so that the sum stays as it is.
"""


def posterior_weights(logits: Tensor, labels: Tensor) -> Tensor:
    """w_k = prod_n p_k(y_n | x_n) / sum_j prod_n p_j(y_n | x_n), (K,) above 0 in float64.

    The posterior over the members under a uniform prior: how sure one can be that this member is the one that made the
    labels. A difference of d nats per example makes a ratio of exp(N d), so with many examples nearly all weight goes
    to one member, also where a mixture of several would predict better: for that there is `stacked_weights`.

    Args:
        logits: (K, N, C) of every member.
        labels: (N,).
    """
    return torch.softmax(_log_likelihoods(logits, labels).sum(1), 0).clamp_min(LEAST_WEIGHT)


def stacked_weights(logits: Tensor, labels: Tensor, *, iterations: int = 200) -> Tensor:
    """The w that maximise (1/N) sum_n log sum_k w_k p_k(y_n | x_n), (K,) above 0 in float64.

    By expectation maximisation from equal weights, with r_kn the `responsibilities` under w:

        w_k <- (1/N) sum_n r_kn,    r_kn = w_k p_k(y_n | x_n) / sum_j w_j p_j(y_n | x_n)

    The likelihood L never falls, and after T iterations it is at most log(K) / T below the best, L* at w*: by Jensen's
    inequality every iteration takes L* - L or more off KL(w* || w), which starts at log K or less.

    Args:
        logits: (K, N, C) of every member.
        labels: (N,).
        iterations: T.
    """
    if iterations < 1:
        raise InvalidInput(f"Expected 1 or more iterations. Got {iterations}.")
    log_p = _log_likelihoods(logits, labels)
    weights = log_p.new_full((len(log_p),), 1 / len(log_p))
    for _ in range(iterations):
        weights = torch.softmax(log_p + weights.log()[:, None], 0).mean(1)
    return weights.clamp_min(LEAST_WEIGHT)


def _log_likelihoods(logits: Tensor, labels: Tensor) -> Tensor:
    """log p_k(y_n | x_n), (K, N) in float64."""
    check_outputs(logits, "(K, N, C)")
    y = check_labels(labels, *logits.shape[1:])
    return categorical_log_likelihood(logits.detach().double(), y)
