"""The minimum of a smooth function of one positive number, which may have several valleys."""

import math
from collections.abc import Callable


def minimise_over_logarithm(loss: Callable[[float], tuple[float, float]], highest: float, grid: int) -> float:
    """The x in 1/highest..highest with the lowest loss(log x); the result is deterministic.

    Takes the best of 2 * grid + 1 points equally spaced in log x (among equals, the one closest to 1) and bisects the
    slope next to it.

    Args:
        loss: log x -> the loss and its slope in log x.
        highest: the upper end of the range, above 1.
        grid: grid steps from log x = 0 to either end of the range.
    """
    points = [math.log(highest) * step / grid for step in range(-grid, grid + 1)]
    losses = [loss(point)[0] for point in points]
    best = min(range(len(points)), key=lambda i: (losses[i], abs(points[i])))
    slope = loss(points[best])[1]
    # The loss falls on one side of the best grid point and is no lower at the next one: a minimum lies between.
    beside = best if slope == 0 else best - 1 if slope > 0 else best + 1
    beside = min(max(beside, 0), len(points) - 1)
    low, high = sorted((points[best], points[beside]))
    for _ in range(32):  # from a grid step of 0.2 to 1e-10 in log x
        middle = (low + high) / 2
        if loss(middle)[1] > 0:
            high = middle
        else:
            low = middle
    return min(max(math.exp((low + high) / 2), 1 / highest), highest)
