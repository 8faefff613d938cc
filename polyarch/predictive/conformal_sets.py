"""Sets of classes that contain the true class of a new example with a guaranteed probability.

- LAC: Sadinle, Lei and Wasserman (2019), "Least Ambiguous Set-Valued Classifiers with Bounded Error Levels",
  arXiv:1609.00451;
- APS: Romano, Sesia and Candès (2020), "Classification with Valid and Adaptive Coverage", arXiv:2006.02544;
- RAPS: Angelopoulos, Bates, Malik and Jordan (2021), "Uncertainty Sets for Image Classifiers using Conformal
  Prediction", arXiv:2009.14193.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from polyarch.errors import InvalidInput, UnknownName
from polyarch.predictive.checks import checked_predictions
from polyarch.predictive.conformal_quantile import conformal_quantile, least_examples

SetMethod = Literal["lac", "aps", "raps"]


@dataclass(frozen=True)
class ConformalSets:
    """Maps probabilities (B, C) to the classes whose score is at most the threshold, a mask (B, C).

    The score s(x, y) of class y, where rho is the probability of all classes ranked before y, o its rank from 1 and u
    uniform in 0..1 for every example:

    - lac: 1 - p_y, the smallest sets on average;
    - aps: rho + u p_y, larger sets for harder examples;
    - raps: rho + u p_y + penalty * max(o - free_ranks, 0), which keeps unlikely classes out of APS's larger sets.

    Calibration draws u; a prediction is deterministic and takes u = 0. Its set contains the sets of every u, so its
    coverage is at least that of the randomised method, often several points above: conservative. With ``uniform`` a
    prediction is the randomised one of the papers. A set always contains the most probable class, because an empty set
    tells a user nothing; that, too, can only add coverage.

    Args:
        method: lac, aps or raps.
        coverage: 1 - alpha.
        threshold: the conformal quantile of the calibration scores.
        examples: how many calibration examples there were.
        penalty: of raps, per rank.
        free_ranks: of raps, how many ranks have no penalty.
    """

    method: SetMethod
    coverage: float
    threshold: float
    examples: int
    penalty: float = 0.0
    free_ranks: int = 0

    def __post_init__(self) -> None:
        if self.method not in get_args(SetMethod):
            raise UnknownName("set method", self.method, get_args(SetMethod))
        least_examples(self.coverage)  # refuses a coverage outside 0..1

    def __call__(self, probabilities: Tensor, uniform: Tensor | None = None) -> Tensor:
        """The mask (B, C) of the classes in each set; ``uniform`` (B,) in 0..1 gives the randomised sets."""
        scores = self.scores(probabilities, uniform)
        classes = torch.arange(probabilities.shape[-1], device=probabilities.device)
        return (scores <= self.threshold) | (classes == probabilities.argmax(-1, keepdim=True))

    def scores(self, probabilities: Tensor, uniform: Tensor | None = None) -> Tensor:
        """s(x, y) of every class, (B, C) -> (B, C), with u = 0 unless ``uniform`` (B,) gives it."""
        return _scores(self.method, probabilities, uniform, self.penalty, self.free_ranks)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ConformalSets":
        """The sets with these plain values."""
        return cls(**values)


def fit_sets(
    probabilities: Tensor,
    labels: Tensor,
    *,
    coverage: float = 0.9,
    method: SetMethod = "lac",
    generator: torch.Generator | None = None,
    penalty: float = 0.01,
    free_ranks: int = 1,
) -> ConformalSets:
    """Sets whose threshold is the conformal quantile of the scores of true classes on calibration data.

    Args:
        probabilities: of n calibration examples, which took no part in training or any other fit, (n, C).
        labels: (n,).
        coverage: 1 - alpha; n must be at least `least_examples` of it.
        method: lac, aps or raps.
        generator: of the draws u; required for aps and raps.
        penalty: of raps, 0 or more.
        free_ranks: of raps, 0 or more.
    """
    if method not in get_args(SetMethod):
        raise UnknownName("set method", method, get_args(SetMethod))
    if penalty < 0 or free_ranks < 0:
        raise InvalidInput(f"Expected a penalty and free ranks of 0 or more. Got {penalty} and {free_ranks}.")
    p, y = checked_predictions(probabilities, labels)
    uniform = None
    if method != "lac":
        if generator is None:
            raise InvalidInput(f"Expected a generator for the random draws of {method}. Got none.")
        uniform = torch.rand(len(p), generator=generator, dtype=p.dtype)
    regularised = (float(penalty), int(free_ranks)) if method == "raps" else (0.0, 0)
    scores = _scores(method, p, uniform, *regularised).gather(1, y[:, None])[:, 0]
    threshold = float(conformal_quantile(scores, coverage))
    return ConformalSets(method, float(coverage), threshold, len(p), *regularised)


def _scores(
    method: SetMethod, probabilities: Tensor, uniform: Tensor | None, penalty: float, free_ranks: int
) -> Tensor:
    """s(x, y), (B, C); see `ConformalSets`."""
    if method == "lac":
        if uniform is not None:
            raise InvalidInput("Expected no random numbers for lac, which is deterministic. Got some.")
        return 1 - probabilities
    falling, order = probabilities.sort(-1, descending=True)
    scores = falling.cumsum(-1) - falling  # rho
    if uniform is not None:
        scores = scores + uniform[:, None] * falling
    if method == "raps":
        ranks = torch.arange(1, falling.shape[-1] + 1, dtype=falling.dtype, device=falling.device)
        scores = scores + penalty * (ranks - free_ranks).clamp_min(0)
    return torch.zeros_like(scores).scatter(-1, order, scores)
