"""Prediction with the right to decline: what the answered examples cost, and where to draw the line."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive.checks import check_scores


@dataclass(frozen=True)
class RiskCoverageCurve:
    """Where a threshold can stand: the share of examples answered, rising to 1, and the share of them wrong."""

    coverage: tuple[float, ...]
    risk: tuple[float, ...]


def risk_coverage(uncertainty: Tensor, correct: Tensor) -> RiskCoverageCurve:
    """The errors among the n most certain examples, from the most certain to all: (N,), (N,) -> M <= N points.

    Examples of equal uncertainty are answered together: no threshold can tell them apart, and their order in the data
    must not flatter the curve.

    Args:
        uncertainty: larger is less certain.
        correct: whether each prediction was right, as booleans or 0 and 1.
    """
    values = check_scores(uncertainty)
    right = check_scores(correct)
    if values.shape != right.shape:
        raise InvalidInput(
            f"Expected one uncertainty per correct or wrong prediction. Got {len(values)} and {len(right)}."
        )
    if not ((right == 0) | (right == 1)).all():
        raise InvalidInput("Expected correct as booleans or 0 and 1. Got other values.")
    _, group, sizes = values.unique(return_inverse=True, return_counts=True)  # groups of rising uncertainty
    answered = sizes.cumsum(0).double()
    wrong = torch.bincount(group, 1 - right, minlength=len(sizes)).cumsum(0)
    return RiskCoverageCurve(tuple((answered / len(values)).tolist()), tuple((wrong / answered).tolist()))


def area(curve: RiskCoverageCurve) -> float:
    """sum_i (coverage_i - coverage_{i-1}) risk_i, the mean risk over all coverages; lower is better.

    Without equal uncertainties this is the usual (1/N) sum_n risk at n/N. A coverage between two points is not to be
    had, and costs the risk of the next larger one.
    """
    starts = (0.0, *curve.coverage)
    steps = zip(starts, curve.coverage, curve.risk, strict=False)
    return math.fsum((end - start) * risk for start, end, risk in steps)


def threshold_at(uncertainty: Tensor, share: float) -> float:
    """The smallest observed t with at most ``share`` of the (validation) examples strictly above it: (N,) -> t.

    Declining what lies strictly above t then declines at most that share of them.
    """
    values = check_scores(uncertainty).sort().values
    if not 0 <= share < 1:
        raise InvalidInput(f"Expected a share of 0 or more and below 1. Got {share}.")
    count = len(values)
    # By division, because the product share * count can fall on either side of a whole number.
    declined = next(k for k in range(math.floor(share * count) + 1, -1, -1) if k / count <= share)
    return float(values[count - 1 - declined])
