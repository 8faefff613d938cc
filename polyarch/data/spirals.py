"""Two interleaved spirals in the plane: a small classification problem that gets harder with their rotation."""

import math

import torch
from torch import Tensor

from polyarch.data.examples import TensorData
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at


def spirals(n: int, *, seed: int, stream: str = "train", rotation: float = 720.0, noise: float = 0.15) -> TensorData:
    """n points on two arms, (n, 2) float; labels alternate, so the class sizes differ by at most one.

    Angle theta = sqrt(u) * rotation with u uniform, radius = theta, second arm turned by half a circle, Gaussian
    noise of standard deviation ``noise`` on both coordinates.
    """
    if n < 2:
        raise InvalidInput(f"Expected two or more points. Got {n}.")
    generator = generator_at(seed, "spirals", stream)
    theta = torch.rand(n, generator=generator, dtype=torch.float64).sqrt() * math.radians(rotation)
    targets = torch.arange(n) % 2
    angle = theta + math.pi * targets
    points: Tensor = torch.stack([theta * angle.cos(), theta * angle.sin()], dim=1)
    points = points + noise * torch.randn(n, 2, generator=generator, dtype=torch.float64)
    return TensorData(points.float(), targets, 2)
