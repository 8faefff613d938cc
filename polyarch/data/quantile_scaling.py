"""Scaling numbers by their rank: a monotone map, fitted to training values, after which they are about normal.

Heavy tails and outliers, which standardisation keeps, then no longer matter. The map is piecewise linear, made of
operations that exporters know.
"""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LEVELS = 40
"""Quantiles that the map goes through."""

FEW, HEAVY = 100, 3.0
"""Columns of more distinct values and of a larger excess kurtosis have a heavy tail."""

Knots = tuple[tuple[float, float], ...]
"""The points (x_j, y_j) of a piecewise linear map, x_j ascending; constant beyond the first and the last."""


def quantile_knots(values: NDArray[np.float64]) -> Knots:
    """The points (q_j, z_j) with the quantiles q_j of values (N,) and of a normal distribution, z_j.

    The levels are p_j = (j + 1/2) / 40. Values that occur often are several quantiles at once, and get the mean of
    their z_j.
    """
    levels = (np.arange(LEVELS) + 0.5) / LEVELS
    normal = np.array([NormalDist().inv_cdf(level) for level in levels])
    quantiles = np.quantile(values, levels).astype(np.float32)  # as the values that are mapped
    found, places = np.unique(quantiles, return_inverse=True)
    means = np.bincount(places, weights=normal) / np.bincount(places)
    return tuple(zip(found.astype(np.float64).tolist(), means.tolist(), strict=True))


def has_heavy_tail(values: NDArray[np.float64]) -> bool:
    """Whether there are many distinct values (N,), with an excess kurtosis, E[z^4] - 3 of the standardised z, above 3.

    That of a normal distribution is 0, that of an exponential one 6.
    """
    deviations = values - values.mean()
    spread = deviations.std()
    if spread == 0 or len(np.unique(values)) <= FEW:
        return False
    return float(np.mean((deviations / spread) ** 4)) - 3 > HEAVY


def piecewise_linear(x: Tensor, knots: Sequence[Knots]) -> Tensor:
    """A map per column: (B, F) -> (B, F).

    y = y_0 + sum_j (y_{j+1} - y_j) min(max((x - x_j) / (x_{j+1} - x_j), 0), 1)
    """
    most = max(map(len, knots))
    padded = [
        [*column, *(_beyond(column[-1], place) for place in range(1, most - len(column) + 1))] for column in knots
    ]
    points = torch.tensor(padded, dtype=torch.float64)  # (F, J, 2)
    starts, steps = points[:, :-1, 0], points[:, :, 0].diff()
    rises = points[:, :, 1].diff()
    starts, steps, rises, first = (
        part.to(device=x.device, dtype=x.dtype) for part in (starts, steps, rises, points[:, 0, 1])
    )
    return first + (((x.unsqueeze(-1) - starts) / steps).clamp(0, 1) * rises).sum(-1)


def _beyond(last: tuple[float, float], place: int) -> tuple[float, float]:
    """Further points, on which nothing depends: columns have as many as the one with most."""
    return last[0] + place, last[1]
