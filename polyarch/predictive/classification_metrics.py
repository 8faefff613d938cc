"""How good predicted classes and sets of classes are. Likelihood and calibration: `polyarch.predictive.calibration`."""

import math

import numpy as np
import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive.checks import check_labels, checked_predictions


def accuracy(probabilities: Tensor, labels: Tensor) -> float:
    """The share of examples whose most probable class is the true one: (N, C), (N,)."""
    counts = _confusion(probabilities, labels)
    return float(counts.diagonal().sum() / counts.sum())


def balanced_accuracy(probabilities: Tensor, labels: Tensor) -> float:
    """The mean over the classes that occur of the share of their examples that are recognised: (N, C), (N,)."""
    counts = _confusion(probabilities, labels)
    occur = counts.sum(1) > 0
    return float((counts.diagonal()[occur] / counts.sum(1)[occur]).mean())


def macro_f1(probabilities: Tensor, labels: Tensor) -> float:
    """The mean of F1 = 2 TP / (2 TP + FP + FN) over the classes that occur or are predicted: (N, C), (N,)."""
    counts = _confusion(probabilities, labels)
    return mean_f1(counts.diagonal(), counts.sum(0), counts.sum(1))


def auroc(probabilities: Tensor, labels: Tensor) -> float:
    """The area under the ROC curve of two classes; the mean over classes, each against the rest, of more: (N, C), (N,).

    Classes that no example or every example has are left out of the mean.
    """
    p, y = checked_predictions(probabilities, labels)
    positives = torch.nn.functional.one_hot(y, p.shape[1])
    return mean_auroc(p[:, 1:], positives[:, 1:]) if p.shape[1] == 2 else mean_auroc(p, positives)


def set_coverage(sets: Tensor, labels: Tensor) -> float:
    """The share of examples whose true class is in their prediction set: masks (N, C), (N,)."""
    _check_sets(sets)
    y = check_labels(labels, *sets.shape).cpu()
    return float(sets.cpu().gather(1, y[:, None]).double().mean())


def set_size(sets: Tensor) -> float:
    """The mean number of classes in a prediction set: masks (N, C)."""
    _check_sets(sets)
    return float(sets.sum(1).double().mean())


def mean_f1(true_positives: Tensor, predicted: Tensor, actual: Tensor) -> float:
    """The mean of 2 TP / (predicted + actual) where the denominator is not 0; 0 if it always is: (C,) each."""
    found = predicted + actual
    defined = found > 0
    return float((2 * true_positives[defined] / found[defined]).mean()) if defined.any() else 0.0


def mean_auroc(scores: Tensor, positives: Tensor) -> float:
    """The mean of the areas under the ROC curves of columns that have examples of both kinds: (N, L), (N, L)."""
    from sklearn.metrics import roc_auc_score  # takes a second to import

    columns = [(truth, score) for truth, score in zip(positives.T.numpy(), scores.T.numpy(), strict=True)]
    areas = [roc_auc_score(truth, score) for truth, score in columns if len(np.unique(truth)) == 2]
    if not areas:
        raise InvalidInput("Expected examples with and without a class to measure AUROC. Got only one kind.")
    return math.fsum(areas) / len(areas)


def _confusion(probabilities: Tensor, labels: Tensor) -> Tensor:
    """How many examples of each true class (rows) have each most probable class (columns): float64 (C, C)."""
    p, y = checked_predictions(probabilities, labels)
    classes = p.shape[1]
    return torch.bincount(y * classes + p.argmax(1), minlength=classes**2).reshape(classes, classes).double()


def _check_sets(sets: Tensor) -> None:
    if sets.dim() != 2 or sets.dtype != torch.bool or 0 in sets.shape:
        raise InvalidInput(f"Expected sets as booleans (N, C), not empty. Got {sets.dtype}, {tuple(sets.shape)}.")
