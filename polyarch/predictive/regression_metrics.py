"""How good predicted numbers, densities and intervals are.

CRPS of a Gaussian mixture: Grimit, Gneiting, Berrocal and Johnson (2006), "The Continuous Ranked Probability Score for
Circular Variables and its Application to Mesoscale Forecast Ensemble Verification", Quarterly Journal of the Royal
Meteorological Society 132.
"""

import math

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive.checks import check_outputs
from polyarch.predictive.gaussian_mixture import GaussianMixture, checked_mixture


def rmse(predictions: Tensor, targets: Tensor) -> Tensor:
    """sqrt((1/N) sum_n (f_nt - y_nt)^2) of every target: (N, T), (N, T) -> (T,) in float64."""
    predictions, targets = _checked(predictions, targets)
    return (predictions - targets).square().mean(0).sqrt()


def mae(predictions: Tensor, targets: Tensor) -> Tensor:
    """(1/N) sum_n |f_nt - y_nt| of every target: (N, T), (N, T) -> (T,) in float64."""
    predictions, targets = _checked(predictions, targets)
    return (predictions - targets).abs().mean(0)


def r2(predictions: Tensor, targets: Tensor) -> Tensor:
    """1 - sum_n (f_nt - y_nt)^2 / sum_n (y_nt - mean_t)^2 of every target: (N, T), (N, T) -> (T,) in float64.

    1 is perfect, 0 as good as predicting the mean. For a constant target it is 1 if predictions are exact, else 0.
    """
    predictions, targets = _checked(predictions, targets)
    errors = (predictions - targets).square().sum(0)
    spread = (targets - targets.mean(0)).square().sum(0)
    constant = (targets == targets[0]).all(0)
    return torch.where(constant, (errors == 0).double(), 1 - errors / torch.where(constant, 1.0, spread))


def mixture_negative_log_likelihood(mixture: GaussianMixture, targets: Tensor) -> float:
    """-(1/N) sum_n log p(y_n | x_n) in nats, the joint density of an example's targets: (N, T)."""
    mixture, targets = checked_mixture(mixture, targets)
    return float(-mixture.log_density(targets).mean())


def crps(mixture: GaussianMixture, targets: Tensor) -> Tensor:
    """The mean of the integral of (P(Y_t <= z) - [y_t <= z])^2 over z, per target, in its unit: (N, T) -> (T,).

    With A(m, v) = E|X| of X ~ N(m, v), it is sum_k w_k A(y - m_k, v_k) - sum_jk w_j w_k A(m_j - m_k, v_j + v_k) / 2.
    """
    mixture, targets = checked_mixture(mixture, targets)
    means, variances, weights = mixture.means, mixture.variances, mixture.weights
    error = torch.einsum("k,kbt->bt", weights, _absolute(targets - means, variances))
    spread = torch.zeros_like(error)
    for weight, mean, variance in zip(
        weights, means, variances, strict=True
    ):  # all pairs at once may not fit in memory
        spread += weight * torch.einsum("k,kbt->bt", weights, _absolute(mean - means, variance + variances))
    return (error - spread / 2).mean(0)


def interval_coverage(low: Tensor, high: Tensor, targets: Tensor) -> Tensor:
    """The share of examples with low <= y <= high, per target: (N, T) each -> (T,) in float64."""
    low, high, targets = _checked(low, high, targets)
    return ((low <= targets) & (targets <= high)).double().mean(0)


def interval_width(low: Tensor, high: Tensor) -> Tensor:
    """The mean of high - low, per target and in its unit: (N, T) each -> (T,) in float64."""
    low, high = _checked(low, high)
    return (high - low).mean(0)


def _absolute(means: Tensor, variances: Tensor) -> Tensor:
    """E|X| = m (2 Phi(m / s) - 1) + 2 s phi(m / s) of X ~ N(m, s^2)."""
    z = means / (2 * variances).sqrt()
    return means * torch.erf(z) + (2 * variances / math.pi).sqrt() * (-z.square()).exp()


def _checked(*values: Tensor) -> tuple[Tensor, ...]:
    """Validated values of one shape (N, T), in float64 on the CPU."""
    for value in values:
        check_outputs(value, "(N, T)")
    if len({value.shape for value in values}) > 1:
        raise InvalidInput(f"Expected values of one shape (N, T). Got {[tuple(value.shape) for value in values]}.")
    return tuple(value.detach().cpu().double() for value in values)
