"""What a calibration error is worth: its noise floor and its interval.

The error sums absolute gaps, so that it is above zero even for a perfect predictor: on a thousand examples about 0.03.
Vaicenavicius et al. (2019), "Evaluating Model Calibration in Classification", arXiv:1902.06977.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive.checks import checked_predictions
from polyarch.randomness import generator_at

CONFIDENCE = 0.95
"""Of intervals."""


@dataclass(frozen=True)
class CalibrationNoise:
    """A calibration error, and how much of it chance explains.

    Args:
        error: as measured.
        floor: the expected error of a perfectly calibrated predictor with the same confidences.
        low, high: a 95 % interval for the error; it may lie below the measured value, which noise raises.
    """

    error: float
    floor: float
    low: float
    high: float


def calibration_noise(
    probabilities: Tensor, labels: Tensor, *, bins: int = 15, resamples: int = 200, seed: int = 0
) -> CalibrationNoise:
    """The noise of `calibration_error`, with the same bins: (N, C), (N,)."""
    p, y = checked_predictions(probabilities, labels)
    confidence, predicted = p.max(1)
    return noise_of(confidence, (predicted == y).double(), bins=bins, resamples=resamples, seed=seed)


def noise_of(
    confidence: Tensor, right: Tensor, *, bins: int = 15, resamples: int = 200, seed: int = 0
) -> CalibrationNoise:
    """The same for events (N,), 0 or 1, that were predicted with probabilities c (N,).

        error = sum_b |sum_{n in b} (right_n - c_n)| / N
        floor = E[error | right_n ~ Bernoulli(c_n)]

    The interval is the basic bootstrap over examples, 2 error - quantiles of resampled errors: these carry the noise
    once more than the error does, which the reflection takes back.

    Args:
        resamples: of events for the floor, and of examples for the interval.
    """
    if bins < 1 or resamples < 2 or not 0 < len(confidence) == len(right):
        raise InvalidInput(
            "Expected 1 or more bins, 2 or more resamples, and as many events as probabilities, at least one. "
            f"Got {bins}, {resamples}, {len(right)} and {len(confidence)}."
        )
    generator = generator_at(seed, "calibration noise")
    c, gaps = confidence.double().cpu(), (right - confidence).double().cpu()
    places = torch.bucketize(c, torch.arange(1, bins, dtype=torch.float64) / bins, right=True)

    def error(place: Tensor, gap: Tensor) -> float:
        return float(torch.bincount(place, gap, minlength=bins).abs().sum() / len(gap))

    perfect = [error(places, _events(c, generator) - c) for _ in range(resamples)]
    again = []
    for _ in range(resamples):
        rows = torch.randint(len(c), (len(c),), generator=generator)
        again.append(error(places[rows], gaps[rows]))
    found = error(places, gaps)
    ends = torch.tensor([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], dtype=torch.float64)
    lowest, highest = torch.quantile(torch.tensor(again, dtype=torch.float64), ends).tolist()
    low, high = (max(2 * found - end, 0.0) for end in (highest, lowest))
    return CalibrationNoise(found, sum(perfect) / resamples, low, high)


def _events(probabilities: Tensor, generator: Generator) -> Tensor:
    """1 with these probabilities, else 0."""
    drawn = torch.rand(probabilities.shape, dtype=torch.float64, generator=generator)
    return (drawn < probabilities).double()
