"""Weights of a mixture's members, from their outputs (K, N, O) for validation examples with targets (N, ...).

By default outputs are logits (K, N, C) and targets classes (N,); ``log_likelihood`` says otherwise.

The members must not have seen these examples, and there should be many more examples than members. A member of almost
no weight still costs a forward pass; to save it, leave the member out: `Mixture` normalises the other weights.
`stacked_weights`: Yao, Vehtari, Simpson and Gelman (2018), "Using Stacking to Average Bayesian Predictive
Distributions", arXiv:1704.02030.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.objectives import LogLikelihood, categorical_log_likelihood
from polyarch.predictive.checks import check_labels, check_outputs, normalised_weights

LEAST_WEIGHT = torch.finfo(torch.float32).tiny
"""The lower limit of weights: `Mixture` takes logarithms in single precision, where less would round to 0.

In double precision it vanishes next to 1, so that the weights still sum to 1.
"""


def responsibilities(logits: Tensor, labels: Tensor, weights: Tensor | Sequence[float]) -> Tensor:
    """p(k | x_n, y_n) = w_k p_k(y_n | x_n) / sum_j w_j p_j(y_n | x_n), (K, N) in float64; columns sum to 1.

    For depths, they tell which inputs need depth. The weights (K,) of 0 or more are normalised here.
    """
    log_p = _log_likelihoods(logits, labels, categorical_log_likelihood)
    return torch.softmax(log_p + normalised_weights(weights, len(logits)).log().to(logits.device)[:, None], 0)


def posterior_weights(
    outputs: Tensor, targets: Tensor, *, log_likelihood: LogLikelihood = categorical_log_likelihood
) -> Tensor:
    """w_k = prod_n p_k(y_n | x_n) / sum_j prod_n p_j(y_n | x_n), (K,) above 0 in float64.

    This is the posterior over members under a uniform prior. A difference of d nats per example makes a ratio of
    exp(N d): with many examples nearly all weight goes to one member, even if a mixture of several would predict
    better; `stacked_weights` finds that mixture.
    """
    return torch.softmax(_log_likelihoods(outputs, targets, log_likelihood).sum(1), 0).clamp_min(LEAST_WEIGHT)


def stacked_weights(
    outputs: Tensor,
    targets: Tensor,
    *,
    iterations: int = 200,
    log_likelihood: LogLikelihood = categorical_log_likelihood,
) -> Tensor:
    """The w that maximise (1/N) sum_n log sum_k w_k p_k(y_n | x_n), (K,) above 0 in float64.

    By expectation maximisation from equal weights, with r_kn the `responsibilities` under w:

        w_k <- (1/N) sum_n r_kn

    The likelihood L never falls, and after T iterations it is at most log(K) / T below the best, L* at w*: by Jensen's
    inequality every iteration lowers KL(w* || w), at most log K at the start, by at least L* - L.
    """
    if iterations < 1:
        raise InvalidInput(f"Expected 1 or more iterations. Got {iterations}.")
    log_p = _log_likelihoods(outputs, targets, log_likelihood)
    weights = log_p.new_full((len(log_p),), 1 / len(log_p))
    for _ in range(iterations):
        weights = torch.softmax(log_p + weights.log()[:, None], 0).mean(1)
    return weights.clamp_min(LEAST_WEIGHT)


def _log_likelihoods(outputs: Tensor, targets: Tensor, log_likelihood: LogLikelihood) -> Tensor:
    """log p_k(y_n | x_n), (K, N) in float64."""
    check_outputs(outputs, "(K, N, C)")
    if log_likelihood is categorical_log_likelihood:
        targets = check_labels(targets, *outputs.shape[1:])
    return log_likelihood(outputs.detach().double(), targets)
