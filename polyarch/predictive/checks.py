"""Validation of the inputs of predictive measures."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from polyarch.errors import InvalidInput

SUM_TOLERANCE = 1e-4
"""How far a row of probabilities may be from summing to 1; float32 over thousands of classes stays within."""


def check_outputs(values: Tensor, shape: str) -> None:
    """Requires finite floats with as many axes as ``shape`` names, such as ``"(B, C)"``, none of them empty."""
    if values.dim() != len(shape.split(",")) or 0 in values.shape or not values.is_floating_point():
        raise InvalidInput(f"Expected floats of shape {shape}, not empty. Got {values.dtype}, {tuple(values.shape)}.")
    if not values.isfinite().all():
        raise InvalidInput(f"Expected finite values of shape {shape}. Got NaN or infinity.")


def check_probabilities(probabilities: Tensor, shape: str = "(B, C)") -> None:
    """Requires rows (..., C) of 0 or more that sum to 1."""
    check_outputs(probabilities, shape)
    if probabilities.min() < 0:
        raise InvalidInput(f"Expected probabilities of 0 or more. Got {probabilities.min().item():g}.")
    sums = probabilities.double().sum(-1)
    error = (sums - 1).abs()
    if error.max() > SUM_TOLERANCE:
        found = sums.flatten()[error.argmax()].item()
        raise InvalidInput(f"Expected probabilities that sum to 1 over the classes. Got a sum of {found:g}.")


def check_labels(labels: Tensor, examples: int, classes: int) -> Tensor:
    """Requires one class index in 0..classes-1 per example; returns them as int64, (N,)."""
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InvalidInput(f"Expected labels as integers. Got {labels.dtype}.")
    if labels.shape != (examples,):
        raise InvalidInput(f"Expected one label per example, ({examples},). Got shape {tuple(labels.shape)}.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise InvalidInput(f"Expected labels in 0..{classes - 1}. Got {low}..{high}.")
    return labels.long()


def checked_predictions(probabilities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Validated probabilities (N, C) in float64 and labels (N,) as int64, both on the CPU."""
    check_probabilities(probabilities, "(N, C)")
    y = check_labels(labels, *probabilities.shape)
    return probabilities.detach().cpu().double(), y.cpu()


def check_scores(scores: Tensor) -> Tensor:
    """Requires one finite number per example; returns them in float64 on the CPU, (N,), with equal order and ties."""
    if scores.dim() != 1 or len(scores) == 0:
        raise InvalidInput(f"Expected one number per example, not empty. Got shape {tuple(scores.shape)}.")
    if scores.is_complex() or not scores.isfinite().all():
        raise InvalidInput("Expected finite real numbers, one per example. Got NaN, infinity or complex ones.")
    return scores.detach().cpu().double()


def normalised_weights(weights: Tensor | Sequence[float] | None, count: int) -> Tensor:
    """Weights of 0 or more divided by their sum, (K,) in float64 on the CPU; equal ones for ``None``."""
    if weights is None:
        weights = [1.0] * count
    if isinstance(weights, Tensor):
        values = weights.detach().cpu().double()
    else:
        values = torch.tensor(weights, dtype=torch.float64)  # torch would round them to single precision by default
    if values.shape != (count,):
        raise InvalidInput(f"Expected one weight per member, ({count},). Got shape {tuple(values.shape)}.")
    if not values.isfinite().all() or values.min() < 0 or values.max() == 0:
        raise InvalidInput(f"Expected finite weights of 0 or more, not all 0. Got {values.tolist()}.")
    values = values / values.max()  # so that even the sum of the largest floats is finite
    return values / values.sum()


def check_temperature(temperature: float) -> None:
    """Requires a finite temperature above 0."""
    if not 0 < temperature < math.inf:
        raise InvalidInput(f"Expected a finite temperature above 0. Got {temperature}.")
