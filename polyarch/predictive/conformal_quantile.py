"""The quantile of calibration scores that gives conformal prediction its guarantee.

If the scores of n calibration examples and of a new example are exchangeable, the new score is at most the k-th
smallest one, k = ceil((n + 1) (1 - alpha)), with a probability of 1 - alpha or more, and of at most
1 - alpha + 1/(n + 1) if no scores are equal: Vovk, Gammerman and Shafer (2005), "Algorithmic Learning in a Random
World", Springer; Lei, G'Sell, Rinaldo, Tibshirani and Wasserman (2018), "Distribution-Free Predictive Inference for
Regression", arXiv:1604.04173.
"""

import math
from fractions import Fraction

from torch import Tensor

from polyarch.errors import InvalidInput


def least_examples(coverage: float) -> int:
    """The smallest n for which k = ceil((n + 1) coverage) is at most n, such as 9 for 0.9 and 19 for 0.95."""
    share = _fraction(coverage)
    return math.ceil(share / (1 - share))


def conformal_quantile(scores: Tensor, coverage: float) -> Tensor:
    """The k-th smallest of n scores, k = ceil((n + 1) coverage): (n, ...) -> (...).

    With fewer examples than `least_examples` only an infinite threshold would guarantee the coverage, so this refuses.
    """
    count, least = len(scores), least_examples(coverage)
    if count < least:
        raise InvalidInput(
            f"Expected at least {least} calibration examples to guarantee a coverage of {coverage:g}. Got {count}."
        )
    return scores.sort(0).values[math.ceil((count + 1) * _fraction(coverage)) - 1]


def _fraction(coverage: float) -> Fraction:
    """The number as written: 9/10 for 0.9, whose float lies above it, so that (n + 1) times it would be rounded up."""
    if not 0 < coverage < 1:
        raise InvalidInput(f"Expected a coverage above 0 and below 1. Got {coverage}.")
    return Fraction(repr(float(coverage)))
