"""How uncertain a prediction is, and how well uncertainty detects OOD examples.

A score is a number per example that is larger the more it looks OOD: entropy, mutual information, or 1 - max
probability. OOD examples (``outside``) are the positives throughout. The scores and measures follow Hendrycks and
Gimpel (2017), "A Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural Networks",
arXiv:1610.02136; mutual information: Smith and Gal (2018), "Understanding Measures of Uncertainty for Adversarial
Example Detection", arXiv:1803.08533.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyarch.objectives import log_marginal
from polyarch.predictive.checks import check_probabilities, check_scores, normalised_weights


def entropy(probabilities: Tensor) -> Tensor:
    """-sum_c p_c log p_c in nats, with 0 log 0 = 0: (B, C) -> (B,)."""
    check_probabilities(probabilities)
    return _entropy(probabilities)


def mutual_information(members: Tensor, weights: Tensor | Sequence[float] | None = None) -> Tensor:
    """H[sum_k w_k p_k] - sum_k w_k H[p_k] in nats, the disagreement of the members: (K, B, C) -> (B,).

    The weights (K,) of 0 or more are normalised here; they are equal by default.
    """
    mixture, shares = _mixture(members, weights)
    return (_entropy(mixture) - torch.einsum("k,kb->b", shares, _entropy(members))).clamp_min(0)


def uncertainty_scores(members: Tensor, weights: Tensor | Sequence[float] | None = None) -> dict[str, Tensor]:
    """All scores of a mixture by name, (K, B, C) -> (B,) each; mutual information only for several members."""
    mixture, shares = _mixture(members, weights)
    found = {"entropy": _entropy(mixture), "max_probability": 1 - mixture.amax(-1)}
    return {**found, "mutual_information": mutual_information(members, shares)} if len(members) > 1 else found


@dataclass(frozen=True)
class Detection:
    """How well scores separate OOD examples from in-distribution ones.

    Args:
        auroc: area under the ROC curve, P(outside > inside) + P(outside = inside) / 2; 0.5 is chance.
        aupr: average precision, the area under the precision-recall curve; chance is the share of OOD examples.
        fpr95: the lowest share of in-distribution examples flagged at a threshold that finds 95 % of the OOD ones.
            Papers that count in-distribution examples as positives report ``detect(-outside, -inside).fpr95``.
    """

    auroc: float
    aupr: float
    fpr95: float


def detect(inside: Tensor, outside: Tensor) -> Detection:
    """All three measures for the scores of in-distribution (N,) and OOD (M,) examples."""
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve  # takes a second to import

    scores = torch.cat([check_scores(inside), check_scores(outside)]).numpy()
    labels = np.repeat([0, 1], [len(inside), len(outside)])
    fpr, tpr, _ = roc_curve(labels, scores, drop_intermediate=False)
    auroc, aupr = roc_auc_score(labels, scores), average_precision_score(labels, scores)
    return Detection(float(auroc), float(aupr), float(fpr[tpr >= 0.95].min()))


def _mixture(members: Tensor, weights: Tensor | Sequence[float] | None) -> tuple[Tensor, Tensor]:
    """The averaged probabilities (B, C) and the normalised weights (K,)."""
    check_probabilities(members, "(K, B, C)")
    shares = normalised_weights(weights, len(members)).to(members)
    return torch.einsum("k,kbc->bc", shares, members), shares


def _entropy(probabilities: Tensor) -> Tensor:
    terms: Tensor = torch.special.entr(probabilities)  # -p log p, 0 at 0, and just below 0 for a p rounded above 1
    return terms.sum(-1).clamp_min(0)


def at_least_single(dtype: torch.dtype) -> torch.dtype:
    """The precision to compute in: half precision has too few digits for differences of entropies."""
    return torch.promote_types(dtype, torch.float32)


def log_probabilities(logits: Tensor, temperature: Tensor | float) -> Tensor:
    """log softmax(logits / T) in single precision or better: (..., C) -> (..., C)."""
    logits = logits.to(at_least_single(logits.dtype))
    return torch.log_softmax(logits / temperature, dim=-1)


def class_readouts(log_members: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities (B, C), entropy (B,) and mutual information (B,) of sum_k w_k p_k: log p (K, B, C), (K,).

    H[p] = -sum_c p_c log p_c of the mixture; I = H[p] - sum_k w_k H[p_k] measures the disagreement of the members: 0 if
    they are equal, at most log K.
    """
    weights = weights.to(log_members)
    log_mixture = log_marginal(log_members, weights.log())
    entropy = entropy_of_logs(log_mixture)
    expected = (weights[:, None] * entropy_of_logs(log_members)).sum(0)
    return log_mixture.exp(), entropy, (entropy - expected).clamp_min(0)


def entropy_of_logs(log_probabilities: Tensor) -> Tensor:
    """-sum_c p_c log p_c from log p: (..., C) -> (...). The clamps make 0 log 0 = 0 and remove rounding below 0."""
    finite = log_probabilities.clamp_min(torch.finfo(log_probabilities.dtype).min)
    return (log_probabilities.exp() * -finite).sum(-1).clamp_min(0)
