"""Prediction with the option to abstain: the error among answered examples, and the threshold to abstain at.

Geifman and El-Yaniv (2017), "Selective Classification for Deep Neural Networks", arXiv:1705.08500.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive.checks import check_scores


@dataclass(frozen=True)
class RiskCoverageCurve:
    """For every possible threshold, the share of examples answered, rising to 1, and their mean error."""

    coverage: tuple[float, ...]
    risk: tuple[float, ...]

    @property
    def area(self) -> float:
        """sum_i (coverage_i - coverage_{i-1}) risk_i, the mean risk over all coverages; lower is better.

        Without ties this is the usual (1/N) sum_n risk at n/N. A coverage between two points costs the risk of the
        next larger one.
        """
        steps = zip((0.0, *self.coverage), self.coverage, self.risk, strict=False)
        return math.fsum((end - start) * risk for start, end, risk in steps)


def risk_coverage(uncertainty: Tensor, errors: Tensor) -> RiskCoverageCurve:
    """The mean error among the n most certain examples, for rising n: (N,), (N,) -> M <= N points.

    Examples of equal uncertainty are answered together, because no threshold can separate them.

    Args:
        uncertainty: larger is less certain.
        errors: of every prediction, 0 or more: whether it was wrong, or by how much.
    """
    values = check_scores(uncertainty)
    wrong = check_scores(errors)
    if values.shape != wrong.shape:
        raise InvalidInput(f"Expected one uncertainty per prediction. Got {len(values)} and {len(wrong)}.")
    if wrong.min() < 0:
        raise InvalidInput(f"Expected errors of 0 or more. Got {wrong.min().item():g}.")
    _, group, sizes = values.unique(return_inverse=True, return_counts=True)  # groups of rising uncertainty
    answered = sizes.cumsum(0).double()
    total = torch.bincount(group, wrong, minlength=len(sizes)).cumsum(0)
    return RiskCoverageCurve(tuple((answered / len(values)).tolist()), tuple((total / answered).tolist()))


def threshold_at(uncertainty: Tensor, share: float) -> float:
    """The smallest observed t with at most ``share`` of the (validation) examples strictly above it: (N,) -> t."""
    values = check_scores(uncertainty).sort().values
    if not 0 <= share < 1:
        raise InvalidInput(f"Expected a share of 0 or more and below 1. Got {share}.")
    count = len(values)
    # By division, because the product share * count may round to either side of a whole number.
    declined = next(k for k in range(math.floor(share * count) + 1, -1, -1) if k / count <= share)
    return float(values[count - 1 - declined])
