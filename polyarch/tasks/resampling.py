"""Scores on resampled examples, from which intervals of scores and of their differences are made.

The bootstrap: Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 6.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.tasks.task import Task, member_weights

RESAMPLES = 200
DIGITS = 6


def resampled_rows(examples: int) -> Tensor:
    """Bootstrap samples of so many examples, (R, N): the same whatever is measured, so that differences are paired."""
    return torch.randint(examples, (RESAMPLES, examples), generator=generator_at(0, "resampled examples"))


def resampled_scores(
    task: Task, outputs: Tensor, targets: Tensor, weights: Tensor | None = None
) -> Mapping[str, list[float | None]]:
    """The ``score`` that selection goes by and the ``loss`` of a mixture on every bootstrap sample of the examples.

    A score is None where a sample has none, such as the AUROC of examples of a single class.

    Args:
        outputs: of the members, (K, N, O).
        targets: (N, ...).
        weights: of the members, (K,); equal by default.
    """
    weights = member_weights(weights, outputs)
    mixed, shares = task.combined(outputs, weights)
    name = task.selection.name
    names = list(dict.fromkeys(["loss", name]))
    found = []
    for rows in resampled_rows(len(targets)):
        try:
            found.append(task.measure(mixed[:, rows], targets[rows], shares, names=names))
        except InvalidInput:
            found.append({})
    return {"score": [_rounded(one.get(name)) for one in found], "loss": [_rounded(one.get("loss")) for one in found]}


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}")
