"""Intervals that contain a new target with a guaranteed probability, from the predictions of a Gaussian mixture.

Intervals scaled by the predicted standard deviation: Lei, G'Sell, Rinaldo, Tibshirani and Wasserman (2018),
"Distribution-Free Predictive Inference for Regression", section 5.2, arXiv:1604.04173. Corrected quantiles: Romano,
Patterson and Candès (2019), "Conformalized Quantile Regression", arXiv:1905.03222.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from polyarch.errors import InvalidInput, UnknownName
from polyarch.predictive.conformal_quantile import conformal_quantile, least_examples
from polyarch.predictive.gaussian_mixture import GaussianMixture, checked_mixture

IntervalMethod = Literal["scaled", "quantile"]


@dataclass(frozen=True)
class ConformalIntervals:
    """Maps a mixture to intervals, low and high (B, T) each, that contain a new target with probability ``coverage``.

    Both methods start from an interval [l, h] with a unit of length u > 0 and move both ends outwards by q units:

    - scaled: l = h = mean, u = standard deviation of the mixture, so the interval is mean +- q deviations;
    - quantile: l and h = quantiles of the mixture at (1 - coverage) / 2 and (1 + coverage) / 2, u = 1. Here q is
      negative if the quantiles were too far apart; ends that would cross meet in the middle.

    The guarantee holds for every target alone, not for all T together, on average over new examples that are
    exchangeable with the calibration examples.

    Args:
        method: scaled or quantile.
        coverage: 1 - alpha.
        corrections: q, one per target.
        examples: how many calibration examples there were.
    """

    method: IntervalMethod
    coverage: float
    corrections: tuple[float, ...]
    examples: int

    def __post_init__(self) -> None:
        if self.method not in get_args(IntervalMethod):
            raise UnknownName("interval method", self.method, get_args(IntervalMethod))
        least_examples(self.coverage)  # refuses a coverage outside 0..1

    def __call__(self, mixture: GaussianMixture) -> tuple[Tensor, Tensor]:
        """low and high, (B, T) each."""
        low, high, unit = _frame(mixture, self.method, self.coverage)
        if len(self.corrections) != low.shape[-1]:
            raise InvalidInput(f"Expected {len(self.corrections)} targets, as calibrated. Got {low.shape[-1]}.")
        margin = low.new_tensor(self.corrections) * unit
        middle = (low + high) / 2
        return torch.minimum(low - margin, middle), torch.maximum(high + margin, middle)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "corrections": list(self.corrections)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ConformalIntervals":
        """The intervals with these plain values."""
        return cls(**{**values, "corrections": tuple(values["corrections"])})


def fit_intervals(
    mixture: GaussianMixture, targets: Tensor, *, coverage: float = 0.9, method: IntervalMethod = "scaled"
) -> ConformalIntervals:
    """Intervals whose correction is the conformal quantile of the scores max(l - y, y - h) / u on calibration data.

    Args:
        mixture: predictions for n calibration examples, which took no part in training or any other fit.
        targets: (n, T).
        coverage: 1 - alpha; n must be at least `least_examples` of it.
        method: scaled or quantile.
    """
    mixture, targets = checked_mixture(mixture, targets)
    if method not in get_args(IntervalMethod):
        raise UnknownName("interval method", method, get_args(IntervalMethod))
    low, high, unit = _frame(mixture, method, coverage)
    scores = torch.maximum(low - targets, targets - high) / unit  # (n, T)
    corrections = conformal_quantile(scores, coverage)
    return ConformalIntervals(method, float(coverage), tuple(corrections.tolist()), len(targets))


def _frame(mixture: GaussianMixture, method: IntervalMethod, coverage: float) -> tuple[Tensor, Tensor, Tensor]:
    """l, h and u, (B, T) each."""
    if method == "scaled":
        return mixture.mean, mixture.mean, mixture.deviation
    low, high = mixture.quantiles([(1 - coverage) / 2, (1 + coverage) / 2])
    return low, high, torch.ones_like(low)
