"""Points of a short Fourier series: a regression in which only the first features matter."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at

EDGE = 10.0
"""Points lie in [-10, 10]."""


class RegressionData(NamedTuple):
    """Features (n, D + 1) and targets (n,)."""

    features: Tensor
    targets: Tensor


def fourier(
    n: int, *, seed: int, stream: str = "train", degree: int = 3, max_degree: int = 20, noise: float = 0.0
) -> RegressionData:
    """n points x, uniform in [-10, 10]; features phi_j(x) = cos(2 pi j x) + sin(2 pi j x), j = 0..D; y by the first k.

        y = sum_{j <= k} phi_j(x) + noise * epsilon

    Features have a mean square of 1 (phi_0 is 1) and are uncorrelated, so those above k tell nothing about y.

    Args:
        degree: k.
        max_degree: D.
        noise: the standard deviation of Gaussian noise.
    """
    if n < 1 or not 0 <= degree <= max_degree:
        raise InvalidInput(f"Expected points, and a degree from 0 to {max_degree}. Got {n} and {degree}.")
    generator = generator_at(seed, "fourier", stream)
    points = EDGE * (2 * torch.rand(n, generator=generator, dtype=torch.float64) - 1)
    angles = 2 * math.pi * points[:, None] * torch.arange(max_degree + 1)
    features: Tensor = angles.cos() + angles.sin()
    targets = features[:, : degree + 1].sum(1)
    targets = targets + noise * torch.randn(n, generator=generator, dtype=torch.float64)
    return RegressionData(features.float(), targets.float())
