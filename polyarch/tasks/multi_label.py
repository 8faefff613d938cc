"""Several labels, each of which is present or not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive import threshold_at
from polyarch.predictive.calibration_noise import CalibrationNoise, noise_of
from polyarch.predictive.line_search import minimise_over_logarithm
from polyarch.predictive.metrics import METRICS, Metric
from polyarch.predictive.multi_label_metrics import (
    exact_match,
    label_accuracy,
    label_auroc,
    label_calibration_error,
    label_macro_f1,
    label_micro_f1,
)
from polyarch.predictive.uncertainty import at_least_single
from polyarch.tasks.task import Calibration, Task, member_weights

HIGHEST_TEMPERATURE = 20.0


@dataclass(frozen=True)
class MultiLabel(Task):
    """p(y | x) = prod_l sigmoid(logit_l)^y_l (1 - sigmoid(logit_l))^(1 - y_l), for targets (B, L) of booleans.

    The loss is the mean over examples and labels of the binary cross-entropy.

    Args:
        names: of the labels.
        metric: what selection goes by; F1 over all labels together by default.

    Example:
        >>> task = MultiLabel(("beach", "sunset"))
        >>> task.loss(torch.zeros(1, 2), torch.tensor([[True, False]])).item()  # log 2
        0.6931471824645996
    """

    kind: ClassVar[str] = "multi-label"
    metrics: ClassVar[Sequence[Metric]] = tuple(
        METRICS[name]
        for name in ("micro_f1", "macro_f1", "auroc", "label_accuracy", "exact_match", "calibration_error")
    )
    readouts: ClassVar[Mapping[str, str]] = {
        "probabilities": "(B, labels): the probability that a label is present, in the order of `labels`.",
        "entropy": "(B,): how unsure the prediction is, in nats, summed over labels.",
        "mutual_information": "(B,): how far the members disagree, in nats, summed over labels; 0 for one member.",
    }

    names: tuple[str, ...] = ()
    metric: str = ""

    @property
    def outputs(self) -> int:
        """A logit per label."""
        return len(self.names)

    def check(self, targets: Tensor) -> None:
        """Refuses anything but booleans (B, L)."""
        if targets.dtype != torch.bool or targets.dim() != 2 or targets.shape[1] != len(self.names):
            raise InvalidInput(
                f"Expected booleans (N, {len(self.names)}) for several labels. Got {targets.dtype} of shape "
                f"{tuple(targets.shape)}."
            )

    def log_likelihood(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Summed over labels: (..., B, L), (B, L) -> (..., B)."""
        signs = targets.to(outputs) * 2 - 1
        return _log_sigmoid(signs * outputs).sum(-1)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean binary cross-entropy of (..., B, L) logits."""
        return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs).expand_as(outputs))

    def distillation(self, outputs: Tensor, teacher: Tensor, targets: Tensor) -> Tensor:
        """The mean binary cross-entropy with the teacher's probabilities as targets."""
        return F.binary_cross_entropy_with_logits(outputs, torch.sigmoid(teacher))

    def mix(self, outputs: Tensor, log_weights: Tensor) -> Tensor:
        """The logits of sum_k w_k sigmoid(logit_k): right about every label alone."""
        weights = log_weights.to(outputs)[:, None, None]
        present, absent = (torch.logsumexp(_log_sigmoid(side) + weights, 0) for side in (outputs, -outputs))
        return present - absent

    def mix_members(self, outputs: Tensor) -> Tensor:
        """The logits of the mean of sigmoid(logit_k); its factor 1 / K cancels."""
        return torch.logsumexp(_log_sigmoid(outputs), 0) - torch.logsumexp(_log_sigmoid(-outputs), 0)

    def tempered(self, outputs: Tensor, temperature: Tensor | float) -> Tensor:
        """logits / T."""
        return outputs.to(at_least_single(outputs.dtype)) / temperature

    def read(self, outputs: Tensor, weights: Tensor, conformal: Mapping[str, Any]) -> tuple[Tensor, ...]:
        """Probabilities, entropy and mutual information."""
        mixed = self.mix(outputs, weights.log())
        entropy = _entropy(mixed)
        expected = (weights.to(outputs)[:, None] * _entropy(outputs)).sum(0)
        return torch.sigmoid(mixed), entropy, (entropy - expected).clamp_min(0)

    def uncertainty(self, read: Sequence[Tensor]) -> Tensor:
        """The entropy."""
        return read[1]

    def predicted(self, read: Sequence[Tensor]) -> list[list[str]]:
        """The names of the labels that are more likely present than not."""
        rows = (read[0] >= 0.5).tolist()
        return [[name for name, present in zip(self.names, row, strict=True) if present] for row in rows]

    def errors(self, read: Sequence[Tensor], targets: Tensor) -> Tensor:
        """The share of labels that are wrong."""
        return ((read[0] >= 0.5) != targets).double().mean(-1)

    def calibrate(self, outputs: Tensor, targets: Tensor, weights: Tensor, *, flag: float) -> Calibration:
        """A temperature by likelihood, and a threshold of the entropy."""

        def loss(log_temperature: float) -> tuple[float, float]:
            """The mixture's loss at log T and its slope."""
            at = torch.tensor(log_temperature, dtype=torch.float64, requires_grad=True)
            tempered = outputs.double() / at.exp()
            log_p = self.log_likelihood(tempered, targets) + weights.double().log()[:, None]
            value = -torch.logsumexp(log_p, 0).mean() + at.square() / (2 * len(targets))  # a prior, as for classes
            (slope,) = torch.autograd.grad(value, at)
            return float(value.detach()), float(slope)

        temperature = minimise_over_logarithm(loss, HIGHEST_TEMPERATURE, 15)
        read = self.read(self.tempered(outputs, temperature), weights, {})
        return Calibration(temperature, threshold_at(self.uncertainty(read), flag))

    def measure(
        self, outputs: Tensor, targets: Tensor, weights: Tensor | None = None, *, names: Sequence[str] | None = None
    ) -> dict[str, float]:
        """Of the mixture's probabilities, (K, N, L); the AUROC is left out where no label varies."""
        shares = member_weights(weights, outputs)
        probabilities = torch.sigmoid(self.mix(outputs, shares.log()))
        found: dict[str, Callable[[], float]] = {
            "loss": lambda: self.mixture_loss(outputs, targets, shares),
            "micro_f1": lambda: label_micro_f1(probabilities, targets),
            "macro_f1": lambda: label_macro_f1(probabilities, targets),
            "auroc": lambda: label_auroc(probabilities, targets),
            "label_accuracy": lambda: label_accuracy(probabilities, targets),
            "exact_match": lambda: exact_match(probabilities, targets),
            "calibration_error": lambda: label_calibration_error(probabilities, targets),
        }
        if names is None and bool((targets == targets[0]).all()):
            del found["auroc"]
        return {name: found[name]() for name in names or found}

    def calibration_noise(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> CalibrationNoise:
        """Of the probabilities of labels, each resampled by itself."""
        probabilities = torch.sigmoid(self.mix(outputs, weights.to(outputs).log()))
        return noise_of(probabilities.flatten(), targets.to(probabilities).flatten())


def _entropy(logits: Tensor) -> Tensor:
    """-sum_l (p_l log p_l + (1 - p_l) log(1 - p_l)) of p = sigmoid(logits): (..., L) -> (...)."""
    probabilities = torch.sigmoid(logits)
    terms = probabilities * _log_sigmoid(logits) + (1 - probabilities) * _log_sigmoid(-logits)
    return -terms.sum(-1)


def _log_sigmoid(logits: Tensor) -> Tensor:
    """log sigmoid(logits), finite for any logit in every exported program, too: (...) -> (...)."""
    return logits.clamp_max(0) - torch.log1p(torch.exp(-logits.abs()))
