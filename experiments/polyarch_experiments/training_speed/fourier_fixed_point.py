"""Where a gradient search for the degree of a Fourier series comes to rest, in closed form.

With uncorrelated features of mean square 1 the training loss is a sum over degrees,

    L(w, m) = sum_j (w_j g_j - t_j)^2,    g_j = (tanh(m - j) + 1) / 2,    t_j = 1 for j <= k, else 0

for MaxDeg m. Without decay of the weights they follow any gate, w_j = t_j / g_j, until the loss and its gradient in m
are 0. Then decay alone moves m, and its only fixed point is 0. With a decay l of the weights, which is a Gaussian prior
over them as in Bayesian linear regression, they come to rest at

    w_j = 2 g_j / a_j,    a_j = 2 g_j^2 + l,    1 - w_j g_j = l / a_j

and what is left of the loss pulls m up as its own decay c pulls it down: c m = - dSoTL/dm.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

HIGHEST = 100.0
"""Above this the gates of all degrees are open, and nothing but decay acts."""


def fixed_point(
    degree: int, *, decay: float, weight_decay: float, rate: float, steps: int, validation: bool = False
) -> float:
    """MaxDeg m at which weights and m no longer move: c m = - dSoTL/dm at the weights above, by bisection.

    Args:
        degree: k.
        decay: c, of m, once per block of T steps.
        weight_decay: l, of the weights, in each of their steps.
        rate: of the steps of the weights.
        steps: T.
        validation: the loss after the T steps is differentiated in place of the sum over them.
    """

    def up(maximum: float) -> float:
        return pull(maximum, degree, weight_decay=weight_decay, rate=rate, steps=steps, validation=validation)

    return float(brentq(lambda maximum: up(maximum) - decay * maximum, 0.0, HIGHEST))


def pull(
    maximum: float, degree: int, *, weight_decay: float, rate: float, steps: int, validation: bool = False
) -> float:
    """- dSoTL/dm through T steps from the weights at rest; arguments as of `fixed_point`.

    From w_0 = w the steps would react to a change of m by u_t = dw_t/dm = (1 - q^t) u, with q = 1 - rate a and

        u = - 2 g' (2 w g - 1) / a,    dL_t/dm = - 2 (1 - w g) (w g' + g u_t)

    so the sum over t < T is a geometric one.
    """
    gates = (np.tanh(maximum - np.arange(degree + 1)) + 1) / 2
    slopes = 2 * gates * (1 - gates)  # g'
    curvature = 2 * gates**2 + weight_decay
    weights, missing = 2 * gates / curvature, weight_decay / curvature
    reaction = -2 * slopes * (2 * weights * gates - 1) / curvature
    moved = 1 - (1 - rate * curvature) ** steps  # 1 - q^T
    counted, reacted = (1, moved) if validation else (steps, steps - moved / (rate * curvature))
    return float((2 * missing * (counted * weights * slopes + gates * reaction * reacted)).sum())
