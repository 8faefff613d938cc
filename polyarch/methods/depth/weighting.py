"""The mixture that predicts, p(y | x) = sum_d w_d p(y | x, d): three proposals for its weights, and a choice.

- ``learned``: the q that was trained with the weights, pruned to the depth that its rule chooses;
- ``exact``: the posterior for the final weights, see `exact_posterior`, pruned likewise;
- ``stacked``: the convex weights with the lowest validation loss, see `polyarch.predictive.stacked_weights`, up to the
  last depth that they use.

The posterior is right about which *one* depth explains the data, and it concentrates on it as examples become many; a
mixture of several depths may still predict better. So validation examples choose. Yao, Vehtari, Simpson and Gelman
(2018), "Using Stacking to Average Bayesian Predictive Distributions", arXiv:1704.02030.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from polyarch.distributions import Categorical
from polyarch.methods.depth.search import prune
from polyarch.predictive import stacked_weights
from polyarch.predictive.member_weights import LEAST_WEIGHT
from polyarch.runs.judging import MemberOutputs

Weighting = Literal["best", "learned", "exact", "stacked"]
FOLDS = 5
"""Of validation examples, by which stacked weights are judged."""
LEAST_SHARE = 1e-3
"""Stacked weights below this are nothing: the depths after the last one above it are not computed."""


@dataclass(frozen=True)
class WeightedMixture:
    """Weights (K,) above 0 of the first K depths, and the loss of their mixture on validation examples.

    Stacked weights are fitted to the validation examples, which would flatter them: their ``valid_loss`` is
    cross-validated, that of the others is the plain one.
    """

    weights: Tensor
    valid_loss: float


def weighted_mixtures(
    exits: MemberOutputs, posteriors: Mapping[str, tuple[Categorical, int]], deepest: int
) -> dict[str, WeightedMixture]:
    """The mixtures by the names of their weights, the stacked one last.

    Args:
        exits: the outputs of all depths.
        posteriors: name -> a distribution over depths and the position of the depth to which it is pruned.
        deepest: the position of the deepest depth that stacked weights may use.
    """
    found = {}
    for name, (q, depth) in posteriors.items():
        weights = prune(q, depth).probabilities.double().clamp_min(LEAST_WEIGHT)
        weights = weights / weights.sum()
        found[name] = WeightedMixture(weights, _loss(exits, weights))
    allowed = exits.at(range(deepest + 1))
    found["stacked"] = WeightedMixture(_stacked(allowed), cross_validated_loss(allowed))
    return found


def preferred(mixtures: Mapping[str, WeightedMixture], asked: Weighting) -> str:
    """The weights that were asked for, or those with the lowest validation loss; the first of equals."""
    return asked if asked != "best" else min(mixtures, key=lambda name: mixtures[name].valid_loss)


def cross_validated_loss(members: MemberOutputs) -> float:
    """The validation loss of stacked weights: every fold is predicted with weights fitted to the other folds.

    A single example leaves nothing to fit: it is predicted with equal weights.
    """
    count = len(members.valid_targets)
    if count == 1:
        return _loss(members, members.valid.new_full((len(members.valid),), 1 / len(members.valid)))
    fold = torch.arange(count, device=members.valid.device) % min(FOLDS, count)  # examples may be sorted by class
    total = 0.0
    for number in range(int(fold.max()) + 1):
        held = fold == number
        weights = _stacked(_on(members, ~held))
        total += int(held.sum()) * _loss(_on(members, held), weights)
    return total / count


def _stacked(members: MemberOutputs) -> Tensor:
    weights = stacked_weights(members.valid, members.valid_targets, log_likelihood=members.task.log_likelihood)
    last = int((weights >= min(LEAST_SHARE, float(weights.max()))).nonzero().max())
    return weights[: last + 1] / weights[: last + 1].sum()


def _loss(members: MemberOutputs, weights: Tensor) -> float:
    """The validation loss of the mixture of the first members."""
    return members.task.measure(members.valid[: len(weights)], members.valid_targets, weights, names=["loss"])["loss"]


def _on(members: MemberOutputs, rows: Tensor) -> MemberOutputs:
    """The same with some of the validation examples, given as a mask (N,)."""
    targets = members.valid_targets[rows]
    return MemberOutputs(members.task, members.valid[:, rows], targets, members.test, members.targets)
