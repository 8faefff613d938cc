"""One class out of several."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.nn.member_layers import mix_classes
from polyarch.objectives import categorical_log_likelihood, log_marginal
from polyarch.predictive import brier, calibration_error, calibration_noise, entropy, fit_temperature, threshold_at
from polyarch.predictive.calibration_noise import CalibrationNoise
from polyarch.predictive.classification_metrics import auroc, balanced_accuracy, macro_f1
from polyarch.predictive.conformal_quantile import least_examples
from polyarch.predictive.conformal_sets import ConformalSets, SetMethod, fit_sets
from polyarch.predictive.metrics import METRICS, Metric
from polyarch.predictive.uncertainty import at_least_single, class_readouts, uncertainty_scores
from polyarch.randomness import generator_at
from polyarch.tasks.task import Calibration, Task, member_weights

LOG_DEVIATION, SHARPENING_DEVIATION = 1.0, 0.1
"""Of the prior on the logarithm of the temperature, and where it is below 0.

Validation examples have also chosen the weights. If networks are too sure on them, they are so elsewhere; if networks
seem not sure enough, that may be the choice, and the fewer the examples the more."""


@dataclass(frozen=True)
class Classification(Task):
    """p(y | x) = softmax(logits), for targets (B,) of int64.

    The loss of a batch is (1/B) sum_n v[y_n] CE(logits_n, y_n), where CE may smooth labels and v are the weights of
    classes, 1 by default. Weights change what is learned: probabilities of rare classes come out too high. Metrics do
    not use them.

    Args:
        names: of the classes; empty for any number of them, where nothing needs to know.
        metric: what selection goes by; the accuracy by default.
        class_weights: v, one per class; see `balanced_weights`.
        label_smoothing: the share of a label that goes to all classes alike.
        coverage: of the prediction sets.
        sets: how prediction sets are made.

    Example:
        >>> task = Classification(("cat", "dog"))
        >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
        >>> task.scores(logits[None], labels)["accuracy"]
        1.0
    """

    kind: ClassVar[str] = "classification"
    metrics: ClassVar[Sequence[Metric]] = tuple(
        METRICS[name] for name in ("accuracy", "balanced_accuracy", "macro_f1", "auroc", "brier", "calibration_error")
    )
    readouts: ClassVar[Mapping[str, str]] = {
        "probabilities": "(B, classes): the probability of every class, in the order of `classes`; a row sums to 1.",
        "entropy": "(B,): how unsure the prediction is, in nats; 0 is sure, log(classes) knows nothing.",
        "mutual_information": "(B,): how far the members disagree, in nats; 0 for one member.",
    }

    names: tuple[str, ...] = ()
    metric: str = ""
    class_weights: tuple[float, ...] = ()
    label_smoothing: float = 0.0
    coverage: float = 0.9
    sets: SetMethod = "lac"

    @property
    def outputs(self) -> int:
        """A logit per class."""
        return len(self.names)

    def check(self, targets: Tensor) -> None:
        """Refuses anything but class indices (B,)."""
        if targets.dtype != torch.int64 or targets.dim() != 1:
            raise InvalidInput(
                f"Expected class indices (N,) of int64 for classification. Got {targets.dtype} of shape "
                f"{tuple(targets.shape)}; numbers are a regression."
            )

    def log_likelihood(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """log softmax(logits) at the target class: (..., B, C), (B,) -> (..., B)."""
        return categorical_log_likelihood(outputs, targets)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The weighted, smoothed cross-entropy of (..., B, C) logits."""
        targets = targets.expand(outputs.shape[:-1]).reshape(-1)
        outputs = outputs.reshape(-1, outputs.shape[-1])
        if not self.class_weights:
            return F.cross_entropy(outputs, targets, label_smoothing=self.label_smoothing)
        weights = torch.tensor(self.class_weights, dtype=outputs.dtype, device=outputs.device)
        losses = F.cross_entropy(outputs, targets, label_smoothing=self.label_smoothing, reduction="none")
        return (weights[targets] * losses).mean()

    def distillation(self, outputs: Tensor, teacher: Tensor, targets: Tensor) -> Tensor:
        """The cross-entropy -(1/B) sum_n v[y_n] sum_c softmax(teacher)_nc log softmax(outputs)_nc.

        Hinton, Vinyals and Dean (2015), "Distilling the Knowledge in a Neural Network", arXiv:1503.02531, at
        temperature 1.
        """
        soft = torch.softmax(teacher, -1)
        if not self.class_weights:
            return F.cross_entropy(outputs, soft)
        weights = torch.tensor(self.class_weights, dtype=outputs.dtype, device=outputs.device)
        return (weights[targets] * F.cross_entropy(outputs, soft, reduction="none")).mean()

    def smoothed(self, amount: float) -> Self:
        """The same task with label smoothing."""
        return replace(self, label_smoothing=amount)

    def mix(self, outputs: Tensor, log_weights: Tensor) -> Tensor:
        """log sum_k w_k softmax(logits_k), which are logits, too: exact."""
        return log_marginal(torch.log_softmax(outputs, -1), log_weights)

    def combined(self, outputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """One member: classes are mixed exactly."""
        return self.mix(outputs, weights.log())[None], torch.ones_like(weights[:1])

    def mix_members(self, outputs: Tensor) -> Tensor:
        """log of the mean of softmax(logits_k)."""
        return mix_classes(outputs)

    def tempered(self, outputs: Tensor, temperature: Tensor | float) -> Tensor:
        """logits / T, in single precision or better."""
        return outputs.to(at_least_single(outputs.dtype)) / temperature

    def read(self, outputs: Tensor, weights: Tensor, conformal: Mapping[str, Any]) -> tuple[Tensor, ...]:
        """Probabilities, entropy and mutual information of the mixture; sets are made from the probabilities."""
        return class_readouts(torch.log_softmax(outputs, -1), weights)

    def uncertainty(self, read: Sequence[Tensor]) -> Tensor:
        """The entropy."""
        return read[1]

    def uncertainty_scores(self, outputs: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """Entropy, 1 - the highest probability and, for several members, mutual information."""
        return uncertainty_scores(torch.softmax(outputs, -1), weights)

    def predicted(self, read: Sequence[Tensor]) -> list[str]:
        """The names of the most probable classes."""
        return [self.names[index] for index in read[0].argmax(-1).tolist()]

    def errors(self, read: Sequence[Tensor], targets: Tensor) -> Tensor:
        """1 where the most probable class is not the true one."""
        return (read[0].argmax(-1) != targets).double()

    def calibrate(self, outputs: Tensor, targets: Tensor, weights: Tensor, *, flag: float) -> Calibration:
        """A temperature by likelihood, a threshold of the entropy, and prediction sets if the examples suffice."""
        temperature = fit_temperature(outputs, targets, weights, log_deviation=LOG_DEVIATION)
        if temperature < 1:
            temperature = fit_temperature(outputs, targets, weights, log_deviation=SHARPENING_DEVIATION)
        probabilities = self.mix(self.tempered(outputs, temperature), weights.log()).exp()
        conformal: dict[str, Any] = {}
        if len(targets) >= least_examples(self.coverage):
            generator = generator_at(0, "prediction sets")
            conformal = fit_sets(
                probabilities, targets, coverage=self.coverage, method=self.sets, generator=generator
            ).to_dict()
        return Calibration(temperature, threshold_at(entropy(probabilities), flag), conformal)

    def measure(
        self, outputs: Tensor, targets: Tensor, weights: Tensor | None = None, *, names: Sequence[str] | None = None
    ) -> dict[str, float]:
        """Of the mixture's probabilities, (K, N, C); the AUROC is left out where only one class occurs."""
        log_p = self.mix(outputs, member_weights(weights, outputs).log())
        probabilities = log_p.exp()
        found: dict[str, Callable[[], float]] = {
            "loss": lambda: float(F.nll_loss(log_p, targets)),
            "accuracy": lambda: float((log_p.argmax(-1) == targets).double().mean()),
            "balanced_accuracy": lambda: balanced_accuracy(probabilities, targets),
            "macro_f1": lambda: macro_f1(probabilities, targets),
            "auroc": lambda: auroc(probabilities, targets),
            "brier": lambda: brier(probabilities, targets),
            "calibration_error": lambda: calibration_error(probabilities, targets),
        }
        if names is None and len(targets.unique()) < 2:
            del found["auroc"]
        return {name: found[name]() for name in names or found}

    def calibration_noise(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> CalibrationNoise:
        """Of the probability of the most probable class."""
        return calibration_noise(self.mix(outputs, weights.to(outputs).log()).exp(), targets)


def prediction_sets(conformal: Mapping[str, Any]) -> ConformalSets | None:
    """What makes sets of classes from probabilities; None where a calibration has none."""
    return ConformalSets.from_dict(conformal) if conformal else None


def balanced_weights(targets: Tensor, classes: int) -> tuple[float, ...]:
    """v_c = N / (C n_c): every class counts the same, and the mean weight of an example is 1. (N,) -> (C,)."""
    counts = targets.bincount(minlength=classes).double()
    if (counts == 0).any():
        raise InvalidInput(f"Expected training examples of every class to weigh them. Got counts {counts.tolist()}.")
    weights: list[float] = (len(targets) / (classes * counts)).tolist()
    return tuple(weights)
