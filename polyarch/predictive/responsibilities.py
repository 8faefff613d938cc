"""Which members of a mixture explain an example: for depths, which inputs need depth."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from polyarch.predictive.checks import check_labels, check_outputs, normalised_weights


def responsibilities(logits: Tensor, labels: Tensor, weights: Tensor | Sequence[float]) -> Tensor:
    """p(k | x_n, y_n) = w_k p_k(y_n | x_n) / sum_j w_j p_j(y_n | x_n), (K, N) in float64; a column sums to 1.

    Args:
        logits: (K, N, C) of every member.
        labels: (N,).
        weights: (K,) of 0 or more, normalised here.
    """
    check_outputs(logits, "(K, N, C)")
    members, examples, classes = logits.shape
    y = check_labels(labels, examples, classes).expand(members, examples)[..., None]
    log_weights = normalised_weights(weights, members).log().to(logits.device)[:, None]
    log_p = torch.log_softmax(logits.detach().double(), -1).gather(-1, y)[..., 0]
    return torch.softmax(log_p + log_weights, 0)
