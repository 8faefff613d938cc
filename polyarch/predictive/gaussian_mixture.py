"""Gaussian predictions of several networks as one mixture, and the scale that calibrates their standard deviations.

The mixture: Lakshminarayanan, Pritzel and Blundell (2017), "Simple and Scalable Predictive Uncertainty Estimation using
Deep Ensembles", arXiv:1612.01474. Noise and disagreement are their aleatoric and epistemic uncertainty: Depeweg,
Hernández-Lobato, Doshi-Velez and Udluft (2018), "Decomposition of Uncertainty in Bayesian Deep Learning for Efficient
and Risk-sensitive Learning", arXiv:1710.07283. The scale: Laves, Ihler, Fast, Kahrs and Ortmaier (2020),
"Well-Calibrated Regression Uncertainty in Medical Imaging with Deep Learning", MIDL.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive.checks import check_outputs, normalised_weights
from polyarch.predictive.line_search import minimise_over_logarithm

SCALES = (0.01, 100.0)
"""The range of fitted scales; on targets that are predicted exactly the best one would be 0."""

_GRID = 23
"""Grid steps from log s = 0 to either end of the range, 0.2 each."""

_PARTS, _ROUNDS = 16, 8
"""A quantile's bracket is divided by 16^8 = 2^32: to below 1e-6 standard deviations for any weights above 1e-7.

Eight rounds of sixteen parts make a quarter of the operations of 32 bisections, which exporters would unroll.
"""


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """p(y | x) = sum_k w_k prod_t N(y_t; m_kt(x), v_kt(x)) for B examples with T targets.

    All methods are made of torch operations that exporters follow, so a network may build a mixture in its forward
    pass. The values are not checked there; see `checked_mixture`.

    Args:
        means: m, (K, B, T).
        variances: v above 0, (K, B, T).
        weights: w, (K,), which sum to 1.

    Example:
        >>> mixture = GaussianMixture(torch.tensor([[[0.0]], [[2.0]]]), torch.ones(2, 1, 1), torch.tensor([0.5, 0.5]))
        >>> mixture.mean.item(), mixture.noise.item(), mixture.disagreement.item()
        (1.0, 1.0, 1.0)
    """

    means: Tensor
    variances: Tensor
    weights: Tensor

    def __post_init__(self) -> None:
        means, variances, weights = (tuple(value.shape) for value in (self.means, self.variances, self.weights))
        if len(means) != 3 or variances != means or weights != means[:1]:
            raise InvalidInput(
                "Expected means and variances (K, B, T) and weights (K,). "
                f"Got shapes {means}, {variances} and {weights}."
            )

    @property
    def mean(self) -> Tensor:
        """sum_k w_k m_k, (B, T)."""
        return self._average(self.means)

    @property
    def noise(self) -> Tensor:
        """The variance that the members expect, sum_k w_k v_k, (B, T)."""
        return self._average(self.variances)

    @property
    def disagreement(self) -> Tensor:
        """The variance of the members' means, sum_k w_k (m_k - mean)^2, (B, T); 0 for one member."""
        return self._average((self.means - self.mean).square())

    @property
    def variance(self) -> Tensor:
        """The variance of the mixture, noise + disagreement by the law of total variance, (B, T)."""
        return self.noise + self.disagreement

    @property
    def deviation(self) -> Tensor:
        """The standard deviation of the mixture, (B, T)."""
        return self.variance.sqrt()

    def log_density(self, targets: Tensor) -> Tensor:
        """log sum_k w_k prod_t N(y_t; m_kt, v_kt), the joint density of an example's targets: (B, T) -> (B,)."""
        return self._log_average(self._log_densities(targets).sum(-1))

    def log_density_per_target(self, targets: Tensor) -> Tensor:
        """log sum_k w_k N(y_t; m_kt, v_kt), the density of every target alone: (B, T) -> (B, T).

        With several members and targets, their sum is not the joint density: what one target tells about the members
        changes the prediction of the others.
        """
        return self._log_average(self._log_densities(targets))

    def cdf(self, targets: Tensor) -> Tensor:
        """P(Y_t <= y_t) = sum_k w_k Phi((y_t - m_kt) / sqrt(v_kt)): (..., B, T) -> (..., B, T)."""
        z = (targets[..., None, :, :] - self.means) / (2 * self.variances).sqrt()  # (..., K, B, T)
        return (self._column(3) * (1 + torch.erf(z)) / 2).sum(-3)

    def quantiles(self, levels: Sequence[float]) -> Tensor:
        """The y_t with P(Y_t <= y_t) = level, for every target alone: (Q, B, T) for Q levels.

        A quantile of the mixture lies between the lowest and the highest of its members'. Every round divides this
        bracket into 16 parts and keeps the one that contains the quantile; the number of rounds is fixed. For a single
        member the bracket is the closed form m + sqrt(v) Phi^-1(level).
        """
        if not levels or not all(0 < level < 1 for level in levels):
            raise InvalidInput(f"Expected levels above 0 and below 1. Got {list(levels)}.")
        wanted = self.means.new_tensor(list(levels))[:, None, None]  # (Q, 1, 1)
        z = self.means.new_tensor([NormalDist().inv_cdf(level) for level in levels])[:, None, None, None]
        members = self.means + z * self.variances.sqrt()  # (Q, K, B, T)
        low = members.amin(1)  # (Q, B, T)
        width = members.amax(1) - low
        steps = torch.arange(1, _PARTS, dtype=low.dtype, device=low.device)[:, None, None, None]
        for _ in range(_ROUNDS):
            width = width / _PARTS
            below = self.cdf(low + steps * width) < wanted  # (15, Q, B, T)
            low = low + width * below.sum(0)
        return low + width / 2

    def scaled(self, factors: Sequence[float] | Tensor) -> "GaussianMixture":
        """The mixture whose members' standard deviations are multiplied by one factor per target, (T,)."""
        scale = factors.to(self.variances) if isinstance(factors, Tensor) else self.variances.new_tensor(list(factors))
        if scale.shape != self.variances.shape[-1:]:
            raise InvalidInput(
                f"Expected one factor per target, ({self.variances.shape[-1]},). Got shape {tuple(scale.shape)}."
            )
        return replace(self, variances=self.variances * scale.square())

    def _column(self, axes: int) -> Tensor:
        """The weights with ``axes`` axes, members first."""
        return self.weights.to(self.means).reshape(-1, *[1] * (axes - 1))

    def _average(self, values: Tensor) -> Tensor:
        return (self._column(values.dim()) * values).sum(0)

    def _log_average(self, values: Tensor) -> Tensor:
        return torch.logsumexp(values + self._column(values.dim()).log(), 0)

    def _log_densities(self, targets: Tensor) -> Tensor:
        """log N(y_t; m_kt, v_kt), (K, B, T)."""
        squared = (targets - self.means).square() / self.variances
        return -(squared + self.variances.log() + math.log(2 * math.pi)) / 2


def checked_mixture(mixture: GaussianMixture, targets: Tensor) -> tuple[GaussianMixture, Tensor]:
    """The validated mixture with normalised weights and its targets (B, T), in float64 on the CPU."""
    check_outputs(mixture.means, "(K, B, T)")
    check_outputs(mixture.variances, "(K, B, T)")
    check_outputs(targets, "(B, T)")
    if mixture.variances.min() <= 0:
        raise InvalidInput(f"Expected variances above 0. Got {mixture.variances.min().item():g}.")
    if targets.shape != mixture.means.shape[1:]:
        raise InvalidInput(f"Expected targets {tuple(mixture.means.shape[1:])}. Got shape {tuple(targets.shape)}.")
    weights = normalised_weights(mixture.weights, len(mixture.means))
    means, variances, values = (v.detach().cpu().double() for v in (mixture.means, mixture.variances, targets))
    return GaussianMixture(means, variances, weights), values


def fit_scale(mixture: GaussianMixture, targets: Tensor) -> tuple[float, ...]:
    """The s_t in 0.01..100 that maximise sum_n log sum_k w_k N(y_nt; m_knt, s_t^2 v_knt), one per target.

    The analogue of `fit_temperature`: apply it with `GaussianMixture.scaled`. A single member has the closed form
    s_t^2 = (1/N) sum_n (y_nt - m_nt)^2 / v_nt; for several, the best of 47 scales equally spaced in log s is refined
    by bisection.

    Args:
        mixture: predictions for the N validation examples.
        targets: (N, T).
    """
    mixture, targets = checked_mixture(mixture, targets)
    squares = (targets - mixture.means).square() / mixture.variances  # (K, N, T)
    lowest, highest = SCALES
    if len(squares) == 1:
        return tuple(min(max(scale, lowest), highest) for scale in squares[0].mean(0).sqrt().tolist())
    offsets = mixture.weights.log()[:, None, None] - mixture.variances.log() / 2  # (K, N, T)

    def fit(squares: Tensor, offsets: Tensor) -> float:
        def loss(log_scale: float) -> tuple[float, float]:
            """The loss at log s and its slope, mean_n sum_k r_kn (1 - z_kn^2 / s^2), for (K, N).

            r_kn is the posterior of member k given y_n, z the standardised error.
            """
            shrunk = squares * math.exp(-2 * log_scale)
            joint = offsets - log_scale - shrunk / 2
            total = torch.logsumexp(joint, 0)
            return float(-total.mean()), float(((joint - total).exp() * (1 - shrunk)).sum(0).mean())

        return minimise_over_logarithm(loss, highest, _GRID)

    return tuple(fit(squares[..., t], offsets[..., t]) for t in range(targets.shape[1]))
