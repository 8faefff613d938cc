"""Bayesian linear regression, where the sum of training losses is a lower bound of the log evidence.

    y = phi theta + epsilon,   theta ~ N(0, prior^2 I),   epsilon ~ N(0, noise^2)

With the data in parts D_1, D_2, ... the chain rule and Jensen's inequality give

    log P(D) = sum_i log E P(D_i | theta) >= sum_i E log P(D_i | theta),   theta ~ P(theta | D_<i)

The right side is minus the sum of the losses of a learner who has seen the parts before: minus SoTL. All in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from polyarch.errors import InvalidInput


class Gaussian(NamedTuple):
    """Mean (D,) and precision (D, D), the inverse of the covariance."""

    mean: Tensor
    precision: Tensor


@dataclass(frozen=True)
class BayesianLinear:
    """A linear model with known noise.

    Args:
        noise: the standard deviation of the targets around phi theta.
        prior: the standard deviation of every weight.
    """

    noise: float = 1.0
    prior: float = 1.0

    def __post_init__(self) -> None:
        if not (self.noise > 0 and self.prior > 0):
            raise InvalidInput(f"Expected standard deviations above 0. Got {self}.")

    def posterior(self, features: Tensor, targets: Tensor) -> Gaussian:
        """P(theta | D) for features (N, D) and targets (N,); the prior for N = 0.

        precision A = I / prior^2 + Phi^T Phi / noise^2,   mean = A^-1 Phi^T y / noise^2
        """
        features, targets = features.double(), targets.double()
        identity = torch.eye(features.shape[1], dtype=torch.float64)
        precision = identity / self.prior**2 + features.T @ features / self.noise**2
        return Gaussian(torch.linalg.solve(precision, features.T @ targets / self.noise**2), precision)

    def log_evidence(self, features: Tensor, targets: Tensor) -> float:
        """log P(D) = log N(y; 0, prior^2 Phi Phi^T + noise^2 I), by matrices of D x D."""
        mean, precision = self.posterior(features, targets)
        count, dimensions = features.shape
        log_determinant = count * math.log(self.noise**2) + dimensions * math.log(self.prior**2)
        log_determinant += torch.linalg.slogdet(precision).logabsdet.item()
        square = (targets.double() @ targets.double()).item() / self.noise**2 - (mean @ precision @ mean).item()
        return float(-0.5 * (count * math.log(2 * math.pi) + log_determinant + square))

    def predictive_log_likelihoods(self, features: Tensor, targets: Tensor, part: int = 1) -> Tensor:
        """log E P(D_i | theta) under P(theta | D_<i), (parts,), for parts of ``part`` examples in their order.

        That is log N(D_i; Phi_i mean, noise^2 I + Phi_i A^-1 Phi_i^T); the sum over parts is the log evidence.
        """
        values = []
        for seen, rows, answers in self._walk(features, targets, part):
            covariance = rows @ torch.linalg.solve(seen.precision, rows.T)
            covariance = covariance + self.noise**2 * torch.eye(len(rows), dtype=torch.float64)
            errors = answers - rows @ seen.mean
            square = errors @ torch.linalg.solve(covariance, errors)
            log_determinant = torch.linalg.slogdet(covariance).logabsdet
            values.append(-0.5 * (square + log_determinant + len(rows) * math.log(2 * math.pi)))
        return torch.stack(values)

    def expected_log_likelihoods(self, features: Tensor, targets: Tensor, part: int = 1) -> Tensor:
        """E log P(D_i | theta) under P(theta | D_<i), (parts,): the bound, in closed form.

        For one example that is log N(y; phi mean, noise^2) - phi A^-1 phi^T / (2 noise^2).
        """
        values = []
        for seen, rows, answers in self._walk(features, targets, part):
            variance = (rows * torch.linalg.solve(seen.precision, rows.T).T).sum()
            values.append(self._log_likelihood(rows @ seen.mean, answers) - variance / (2 * self.noise**2))
        return torch.stack(values)

    def sampled_log_likelihoods(
        self, features: Tensor, targets: Tensor, *, samples: int, steps: int, generator: Generator, part: int = 1
    ) -> Tensor:
        """log P(D_i | theta) for samples from P(theta | D_<i) by sample-then-optimise, (samples, parts).

        A sample draws theta_0 from the prior and one error per target, e ~ N(0, noise^2). The minimiser of

            |y + e - Phi theta|^2 / noise^2 + |theta - theta_0|^2 / prior^2      over the examples in D_<i

        is then a draw from the posterior. Gradient descent finds it, part by part, from where it was for the part
        before. With the rate 2 / (smallest + largest eigenvalue of A) the distance to the minimiser falls by
        (kappa - 1) / (kappa + 1) a step, kappa the ratio of the two.

        Args:
            steps: of gradient descent for every part.
        """
        shape = samples, features.shape[1]
        first = self.prior * torch.randn(shape, generator=generator, dtype=torch.float64)
        weights, pull = first, first / self.prior**2
        values = []
        for seen, rows, answers in self._walk(features, targets, part):
            eigenvalues = torch.linalg.eigvalsh(seen.precision)
            rate = 2 / (eigenvalues[0] + eigenvalues[-1])
            for _ in range(steps):
                weights = weights - rate * (weights @ seen.precision - pull)  # half the gradient of the above
            values.append(self._log_likelihood(weights @ rows.T, answers))
            errors = self.noise * torch.randn(samples, len(rows), generator=generator, dtype=torch.float64)
            pull = pull + (answers + errors) @ rows / self.noise**2
        return torch.stack(values, dim=1)

    def _walk(self, features: Tensor, targets: Tensor, part: int) -> Iterator[tuple[Gaussian, Tensor, Tensor]]:
        """For every part: the posterior of what comes before it, its features and its targets."""
        if part < 1:
            raise InvalidInput(f"Expected parts of 1 or more examples. Got {part}.")
        seen = self.posterior(features[:0], targets[:0])
        for rows, values in zip(features.double().split(part), targets.double().split(part), strict=True):
            yield seen, rows, values
            precision = seen.precision + rows.T @ rows / self.noise**2
            pull = seen.precision @ seen.mean + rows.T @ values / self.noise**2
            seen = Gaussian(torch.linalg.solve(precision, pull), precision)

    def _log_likelihood(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """log N(targets; predictions, noise^2), summed over examples: (..., B), (B,) -> (...)."""
        squares = (predictions - targets.double()).square().sum(-1) / self.noise**2
        return -0.5 * (squares + predictions.shape[-1] * math.log(2 * math.pi * self.noise**2))


def sotl_bound(log_likelihoods: Tensor) -> Tensor:
    """Minus SoTL of every sample, (k, parts) -> (k,): the mean estimates sum_i E log P(D_i | theta)."""
    return log_likelihoods.sum(1)


def multi_sample_bound(log_likelihoods: Tensor) -> Tensor:
    """sum_i log (1/k) sum_j P(D_i | theta_j), (k, parts) -> (): k samples per part make the bound tighter."""
    return (torch.logsumexp(log_likelihoods, dim=0) - math.log(len(log_likelihoods))).sum()
