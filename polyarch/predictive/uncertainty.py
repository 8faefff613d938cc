"""How unsure a prediction is, and how well that tells foreign examples from known ones.

A score is a number per example that is larger the further outside the example seems: entropy, mutual information, or
1 - max probability. Foreign examples (``outside``) are the positives everywhere here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive.checks import check_probabilities, check_scores, normalised_weights


def entropy(probabilities: Tensor) -> Tensor:
    """-sum_c p_c log p_c in nats, with 0 log 0 = 0: (B, C) -> (B,)."""
    check_probabilities(probabilities)
    return _entropy(probabilities)


def mutual_information(members: Tensor, weights: Tensor | Sequence[float] | None = None) -> Tensor:
    """H[sum_k w_k p_k] - sum_k w_k H[p_k] in nats, what the members disagree about: (K, B, C) -> (B,).

    Args:
        members: the probabilities of every member.
        weights: (K,) of 0 or more, normalised here; equal by default.
    """
    check_probabilities(members, "(K, B, C)")
    shares = normalised_weights(weights, len(members)).to(members)
    mixture = torch.einsum("k,kbc->bc", shares, members)
    return (_entropy(mixture) - torch.einsum("k,kb->b", shares, _entropy(members))).clamp_min(0)


def max_probability(probabilities: Tensor) -> Tensor:
    """The probability of the predicted class, (B, C) -> (B,); 1 minus it is a score."""
    check_probabilities(probabilities)
    return probabilities.amax(-1)


def uncertainty_scores(members: Tensor, weights: Tensor | Sequence[float] | None = None) -> dict[str, Tensor]:
    """All scores of a mixture by name, (K, B, C) -> (B,) each; mutual information only where there are several members.

    Args:
        members: the probabilities of every member.
        weights: (K,) of 0 or more, normalised here; equal by default.
    """
    check_probabilities(members, "(K, B, C)")
    shares = normalised_weights(weights, len(members)).to(members)
    mixture = torch.einsum("k,kbc->bc", shares, members)
    found = {"entropy": _entropy(mixture), "max_probability": 1 - mixture.amax(-1)}
    return {**found, "mutual_information": mutual_information(members, shares)} if len(members) > 1 else found


@dataclass(frozen=True)
class Detection:
    """How well scores tell foreign examples from known ones.

    Args:
        auroc: area under the ROC curve; 0.5 is chance.
        aupr: area under the precision-recall curve; chance is the share of foreign examples.
        fpr95: the share of known examples that raise a false alarm where 95 % of the foreign ones are found.
    """

    auroc: float
    aupr: float
    fpr95: float


def detect(inside: Tensor, outside: Tensor) -> Detection:
    """All three measures for the scores of known (N,) and foreign (M,) examples."""
    return Detection(auroc(inside, outside), aupr(inside, outside), fpr_at_tpr(inside, outside))


def auroc(inside: Tensor, outside: Tensor) -> float:
    """P(outside > inside) + P(outside = inside) / 2 over all pairs (Mann-Whitney U / NM): (N,), (M,) -> 0..1."""
    known, foreign = check_scores(inside).sort().values, check_scores(outside)
    below = torch.searchsorted(known, foreign)
    not_above = torch.searchsorted(known, foreign, right=True)
    return int((below + not_above).sum()) / (2 * len(known) * len(foreign))  # exact until the division


def aupr(inside: Tensor, outside: Tensor) -> float:
    """Average precision, sum_t (recall_t - recall_{t-1}) precision_t over falling thresholds: (N,), (M,) -> 0..1.

    Equal scores are found together, with one precision.
    """
    known, foreign = check_scores(inside), check_scores(outside)
    thresholds = torch.cat([known, foreign]).unique().flip(0)  # (T,)
    hits, alarms = _not_below(foreign, thresholds), _not_below(known, thresholds)
    gains = torch.diff(hits, prepend=hits.new_zeros(1))
    return float((gains * hits / (hits + alarms)).sum() / len(foreign))


def fpr_at_tpr(inside: Tensor, outside: Tensor, tpr: float = 0.95) -> float:
    """The lowest share of known examples with score >= t, over all t that find at least ``tpr`` of the foreign ones.

    Some papers count the other way round, known examples as positives: that is ``fpr_at_tpr(-outside, -inside)``.
    """
    known, foreign = check_scores(inside), check_scores(outside)
    if not 0 < tpr <= 1:
        raise InvalidInput(f"Expected a true positive rate above 0 and at most 1. Got {tpr}.")
    count = len(foreign)
    # By division, because the product 0.95 * count can fall on either side of a whole number.
    needed = next(k for k in range(max(1, math.floor(tpr * count) - 1), count + 1) if k / count >= tpr)
    threshold = foreign.sort(descending=True).values[needed - 1]
    return int((known >= threshold).sum()) / len(known)


def _not_below(scores: Tensor, thresholds: Tensor) -> Tensor:
    """How many scores lie at or above each threshold, (T,) in float64."""
    return (len(scores) - torch.searchsorted(scores.sort().values, thresholds)).double()


def _entropy(probabilities: Tensor) -> Tensor:
    terms: Tensor = torch.special.entr(probabilities)  # -p log p, 0 at 0, and just below 0 for a p rounded above 1
    return terms.sum(-1).clamp_min(0)
