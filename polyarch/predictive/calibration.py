"""How well probabilities match frequencies, and the temperature that improves the match.

Expected calibration error and temperature scaling: Guo, Pleiss, Sun and Weinberger (2017), "On Calibration of Modern
Neural Networks", arXiv:1706.04599.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive.checks import check_labels, check_outputs, checked_predictions, normalised_weights
from polyarch.predictive.line_search import minimise_over_logarithm

TEMPERATURES = (0.05, 20.0)
"""The range of fitted temperatures; on separable data the best one would be 0."""

_GRID = 15
"""Grid steps from log T = 0 to either end of the range."""


@dataclass(frozen=True)
class ConfidenceBin:
    """Mean confidence and accuracy of the examples whose top probability lies in low..high."""

    low: float
    high: float
    confidence: float
    accuracy: float
    count: int


def negative_log_likelihood(probabilities: Tensor, labels: Tensor) -> float:
    """-(1/N) sum_n log p_n[y_n] in nats: (N, C), (N,). Infinite if a label has probability 0."""
    p, y = checked_predictions(probabilities, labels)
    return float(-p.gather(1, y[:, None]).log().mean())


def brier(probabilities: Tensor, labels: Tensor) -> float:
    """(1/N) sum_n sum_c (p_nc - [c = y_n])^2, in 0..2: (N, C), (N,)."""
    p, y = checked_predictions(probabilities, labels)
    truth = torch.zeros_like(p).scatter_(1, y[:, None], 1.0)
    return float((p - truth).square().sum(1).mean())


def calibration_error(probabilities: Tensor, labels: Tensor, bins: int = 15) -> float:
    """sum_b (n_b / N) |accuracy_b - confidence_b|, in 0..1, over bins of equal width of the top probability."""
    found = reliability(probabilities, labels, bins)
    gaps = (part.count * abs(part.accuracy - part.confidence) for part in found)
    return math.fsum(gaps) / len(labels)


def reliability(probabilities: Tensor, labels: Tensor, bins: int = 15) -> list[ConfidenceBin]:
    """The non-empty bins [low, high) of the top probability; the last one includes 1: (N, C), (N,)."""
    p, y = checked_predictions(probabilities, labels)
    if bins < 1:
        raise InvalidInput(f"Expected 1 or more bins. Got {bins}.")
    edges = torch.arange(bins + 1, dtype=torch.float64) / bins
    confidence, predicted = p.max(1)
    place = torch.bucketize(confidence, edges[1:-1], right=True)  # (N,) in 0..bins-1
    counts = torch.bincount(place, minlength=bins)
    sure = torch.bincount(place, confidence, minlength=bins)
    right = torch.bincount(place, (predicted == y).double(), minlength=bins)
    return [
        ConfidenceBin(float(edges[i]), float(edges[i + 1]), float(sure[i] / n), float(right[i] / n), n)
        for i, n in enumerate(counts.tolist())
        if n
    ]


def fit_temperature(
    logits: Tensor, labels: Tensor, weights: Tensor | Sequence[float] | None = None, *, log_deviation: float = math.inf
) -> float:
    """The T in 0.05..20 with the lowest -(1/N) (sum_n log sum_k w_k softmax(logits_kn / T)[y_n] - (log T)^2 / 2s^2).

    The loss has one minimum in log T for a single network, but may have several for a mixture. So this takes the best
    of 31 temperatures equally spaced in log T and bisects the slope next to it, in float64. Uninformative logits
    give 1.

    Args:
        logits: (N, C) of one network, or (K, N, C) of the members of a mixture, before any temperature.
        labels: (N,).
        weights: (K,) of 0 or more, normalised here; equal by default.
        log_deviation: s, the standard deviation of a Gaussian prior on log T around 0; no prior by default. A handful
            of correctly classified examples would pull T to its lower limit; a prior with s = 1 prevents that.
    """
    if not log_deviation > 0:
        raise InvalidInput(f"Expected a standard deviation of log T above 0. Got {log_deviation}.")
    check_outputs(logits, "(N, C)" if logits.dim() == 2 else "(K, N, C)")
    if logits.dim() == 2:
        logits = logits[None]
    members, examples, classes = logits.shape
    y = check_labels(labels, examples, classes).cpu().expand(members, examples)[..., None]
    log_weights = normalised_weights(weights, members).log()[:, None]
    z = logits.detach().cpu().double()
    z = z - z.amax(-1, keepdim=True)  # equal logits become exact zeros, whose loss is exactly flat

    def loss(log_temperature: float) -> tuple[float, float]:
        """The loss at log T and its slope, mean_n sum_k r_kn (z_y - E_k[z]) / T.

        r_kn is the posterior of member k given y_n, E_k the mean over classes under member k.
        """
        scaled = z * math.exp(-log_temperature)
        log_p = torch.log_softmax(scaled, -1)
        joint = log_p.gather(-1, y)[..., 0] + log_weights  # (K, N)
        total = torch.logsumexp(joint, 0)
        lead = scaled.gather(-1, y)[..., 0] - (log_p.exp() * scaled).sum(-1)
        prior = log_temperature / (log_deviation**2 * examples)  # the slope of the prior
        value = float(-total.mean()) + prior * log_temperature / 2
        return value, float(((joint - total).exp() * lead).sum(0).mean()) + prior

    return minimise_over_logarithm(loss, TEMPERATURES[1], _GRID)
