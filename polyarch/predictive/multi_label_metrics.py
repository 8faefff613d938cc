"""How good the probabilities of several labels per example are, each of which is present or not."""

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive.checks import check_outputs
from polyarch.predictive.classification_metrics import mean_auroc, mean_f1


def label_accuracy(probabilities: Tensor, targets: Tensor) -> float:
    """The share of labels that are right, over all examples and labels: (N, L), (N, L).

    A label is predicted if its probability is 0.5 or more, here and below.
    """
    predicted, actual = _decided(probabilities, targets)
    return float((predicted == actual).double().mean())


def exact_match(probabilities: Tensor, targets: Tensor) -> float:
    """The share of examples all of whose labels are right: (N, L), (N, L)."""
    predicted, actual = _decided(probabilities, targets)
    return float((predicted == actual).all(1).double().mean())


def label_micro_f1(probabilities: Tensor, targets: Tensor) -> float:
    """F1 = 2 TP / (2 TP + FP + FN) of all examples and labels together; 0 if no label occurs or is predicted."""
    predicted, actual = _decided(probabilities, targets)
    return mean_f1((predicted * actual).sum()[None], predicted.sum()[None], actual.sum()[None])


def label_macro_f1(probabilities: Tensor, targets: Tensor) -> float:
    """The mean of F1 over the labels that occur or are predicted; 0 if there are none: (N, L), (N, L)."""
    predicted, actual = _decided(probabilities, targets)
    return mean_f1((predicted * actual).sum(0), predicted.sum(0), actual.sum(0))


def label_auroc(probabilities: Tensor, targets: Tensor) -> float:
    """The mean area under the ROC curve over labels that some examples have and others do not: (N, L), (N, L)."""
    return mean_auroc(*_checked(probabilities, targets))


def label_calibration_error(probabilities: Tensor, targets: Tensor, bins: int = 15) -> float:
    """sum_b (n_b / N L) |frequency_b - mean probability_b| over bins of equal width, all labels together.

    Unlike `calibration_error`, which looks at the most probable class, the bins are of the probability of the label
    itself, in 0..1: (N, L), (N, L).
    """
    if bins < 1:
        raise InvalidInput(f"Expected 1 or more bins. Got {bins}.")
    p, y = (values.flatten() for values in _checked(probabilities, targets))
    edges = torch.arange(1, bins, dtype=torch.float64) / bins
    place = torch.bucketize(p, edges, right=True)
    return float(torch.bincount(place, p - y, minlength=bins).abs().sum() / len(p))


def _decided(probabilities: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Predicted and actual labels as 0 and 1, float64 (N, L)."""
    p, y = _checked(probabilities, targets)
    return (p >= 0.5).double(), y


def _checked(probabilities: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Validated probabilities and targets, float64 (N, L) on the CPU."""
    check_outputs(probabilities, "(N, L)")
    p, y = probabilities.detach().cpu().double(), targets.detach().cpu().double()
    if p.min() < 0 or p.max() > 1:
        raise InvalidInput(f"Expected probabilities in 0..1. Got {p.min().item():g}..{p.max().item():g}.")
    if y.shape != p.shape or not ((y == 0) | (y == 1)).all():
        raise InvalidInput(f"Expected targets {tuple(p.shape)} of 0 and 1. Got shape {tuple(y.shape)} or other values.")
    return p, y
