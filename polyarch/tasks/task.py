"""What is predicted: the interface of all tasks.

A task is a value that training, estimators, judging, prediction, export and reports are handed. It alone knows what the
numbers that a network returns mean, so that nothing else names a loss or takes an argmax.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from polyarch.errors import InvalidInput, UnknownName
from polyarch.predictive.calibration_noise import CalibrationNoise
from polyarch.predictive.metrics import Metric

LOSS = Metric("loss", "minimise", "NLL", "nats")
"""Every task measures the mean negative log-likelihood in nats per example."""

SYNONYMS = {"nll": "loss", "f1": "macro_f1"}
"""Other names that users know metrics by."""


@dataclass(frozen=True)
class Calibration:
    """What was fitted on validation data, for predictions that can be trusted.

    Args:
        temperature: T > 0, which turns every member's p(y | x) into p^(1/T), normalised: logits are divided by T,
            variances multiplied by it.
        threshold: predictions that are more uncertain than this are flagged.
        conformal: plain values from which a task makes prediction sets or intervals of known coverage; empty if it
            makes none.
    """

    temperature: float = 1.0
    threshold: float = math.inf
    conformal: Mapping[str, Any] = field(default_factory=dict)


class Task(ABC):
    """What is predicted; a subclass is a frozen dataclass.

    Shapes: a network returns (B, O) numbers per batch, K members (K, B, O). Targets are (B,) or (B, T).

    Attributes:
        kind: the name under which it is registered.
        metrics: what `measure` can measure, beside the loss. The first is what selection goes by, unless ``metric``
            names another.
        readouts: what a predictor returns, in order: name -> its shape and meaning.
        starts_at_zero: whether networks should return zeros at first, because the loss of large outputs has no bound.
        names: of the classes, of the numbers or of the labels that are predicted.
        metric: the name of the metric that selection goes by; empty for the first.
    """

    kind: ClassVar[str]
    metrics: ClassVar[Sequence[Metric]]
    readouts: ClassVar[Mapping[str, str]]
    starts_at_zero: ClassVar[bool] = False
    names: tuple[str, ...]
    metric: str

    @property
    @abstractmethod
    def outputs(self) -> int:
        """O, how many numbers a network returns per example."""

    @property
    def selection(self) -> Metric:
        """The metric that selection goes by."""
        return self.metric_named(self.metric) if self.metric else self.metrics[0]

    def metric_named(self, name: str) -> Metric:
        """A metric of this task by its name, such as ``nll`` or ``balanced accuracy``."""
        wanted = name.strip().lower().replace(" ", "_").replace("-", "_")
        for metric in (*self.metrics, LOSS):
            if metric.name == SYNONYMS.get(wanted, wanted):
                return metric
        raise UnknownName(f"metric of {self.kind}", name, [metric.name for metric in (*self.metrics, LOSS)])

    @abstractmethod
    def check(self, targets: Tensor) -> None:
        """Refuses targets that are not of this task."""

    @abstractmethod
    def log_likelihood(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """log p(y_n | x_n) in nats: (..., B, O), (B, ...) -> (..., B)."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """What training minimises, a scalar: by default the mean negative log-likelihood of (..., B, O) outputs.

        Outputs (K, B, O) are those of K members that are trained side by side, each by its own loss.
        """
        return -self.log_likelihood(outputs, targets).mean()

    def distillation(self, outputs: Tensor, teacher: Tensor, targets: Tensor) -> Tensor:
        """What outputs that learn from another network minimise, a scalar: (B, O), (B, O), (B, ...).

        Where the outputs are a distribution, the expected loss of targets that the teacher draws,
        E_{y ~ teacher(x)}[-log p(y | x)], which is least where both predict the same. By default, where they mean
        anything, the loss itself: nothing is known about how close two outputs are.

        Args:
            teacher: outputs of the other network, without gradients.
        """
        return self.loss(outputs, targets)

    def smoothed(self, amount: float) -> Self:
        """The same task with label smoothing, which only classes have."""
        if amount:
            raise InvalidInput(f"Expected classes for label smoothing. Got {self.kind}.")
        return self

    @abstractmethod
    def mix(self, outputs: Tensor, log_weights: Tensor) -> Tensor:
        """The outputs of one network that predicts like the mixture: (K, B, O), (K,) -> (B, O)."""

    def mix_members(self, outputs: Tensor) -> Tensor:
        """What `mix` returns for equal weights: (K, B, O) -> (B, O).

        Made of operations that `polyarch.nn.record` can follow: networks that hold their members end with it.
        """
        return self.mix(outputs, outputs.new_full((len(outputs),), -math.log(len(outputs))))

    def combined(self, outputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Fewer members with weights that predict exactly like these, where there are any: (K, N, O), (K,)."""
        return outputs, weights

    def held_out(self, outputs: Tensor, folds: Tensor, shares: Tensor, targets: Tensor) -> Tensor:
        """What an ensemble would say about examples that were new to all of it, to calibrate it by.

        Its members are S settings times K networks, each of which was trained without one fold of the examples. By
        default the network without an example's fold speaks for all K.

        Args:
            outputs: of every network on every example, (S, K, N, O).
            folds: the fold that holds each example, (N,) whole numbers below K.
            shares: of the settings, (S,).
            targets: (N, ...).

        Returns:
            outputs of the members, (S K, N, O), those of a setting side by side.
        """
        return unseen(outputs, folds).repeat_interleave(outputs.shape[1], 0)

    @abstractmethod
    def tempered(self, outputs: Tensor, temperature: Tensor | float) -> Tensor:
        """Outputs whose p(y | x) is p^(1/T), normalised: (..., O) -> (..., O)."""

    @abstractmethod
    def read(self, outputs: Tensor, weights: Tensor, conformal: Mapping[str, Any]) -> tuple[Tensor, ...]:
        """What a predictor returns, the ``readouts`` in order: tempered (K, B, O), (K,) -> tensors (B, ...).

        Made of operations that exporters know.

        Args:
            conformal: of the calibration.
        """

    def reading(self, conformal: Mapping[str, Any]) -> "Reading":
        """What a `polyarch.predictive.Mixture` reads its members' outputs by."""
        return Reading(self, dict(conformal))

    @abstractmethod
    def uncertainty(self, read: Sequence[Tensor]) -> Tensor:
        """Which of the ``readouts`` says how uncertain a prediction is, one number per example: (B,)."""

    def uncertainty_scores(self, outputs: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """All measures of uncertainty by name, (B,) each: tempered (K, B, O), (K,)."""
        return {"uncertainty": self.uncertainty(self.read(outputs, weights, {}))}

    def predicted(self, read: Sequence[Tensor]) -> list[Any]:
        """What is predicted for every example, in a user's terms: by default the first of the ``readouts``."""
        values: list[Any] = read[0].tolist()
        return values

    @abstractmethod
    def errors(self, read: Sequence[Tensor], targets: Tensor) -> Tensor:
        """How wrong every prediction is, 0 or more: the ``readouts`` and targets (B, ...) -> (B,)."""

    @abstractmethod
    def calibrate(self, outputs: Tensor, targets: Tensor, weights: Tensor, *, flag: float) -> Calibration:
        """Fits a calibration to validation data.

        Args:
            outputs: (K, N, O) of the members.
            weights: (K,) of the members, which sum to 1.
            flag: the share of predictions to flag.
        """

    @abstractmethod
    def measure(
        self, outputs: Tensor, targets: Tensor, weights: Tensor | None = None, *, names: Sequence[str] | None = None
    ) -> dict[str, float]:
        """Metrics of a mixture by name: (K, N, O), (N, ...), (K,).

        Args:
            weights: equal by default.
            names: those wanted; the loss and all metrics by default.
        """

    def scores(self, outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> dict[str, float]:
        """The loss and the metric that selection goes by."""
        return self.measure(outputs, targets, weights, names=list(dict.fromkeys(["loss", self.selection.name])))

    def calibration_noise(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> CalibrationNoise | None:
        """What the calibration error of a mixture is worth, where it has one: (K, N, O), (N, ...), (K,)."""
        return None

    def mixture_loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> float:
        """-(1/N) sum_n log sum_k w_k p_k(y_n | x_n): (K, N, O), (N, ...), (K,)."""
        log_p = self.log_likelihood(outputs, targets) + weights.to(outputs).log()[:, None]
        return float(-torch.logsumexp(log_p, 0).mean())

    def by_metric(self, name: str) -> Self:
        """The same task with selection by another metric."""
        return replace(self, metric=self.metric_named(name).name)  # type: ignore[type-var]


@dataclass(frozen=True)
class Reading:
    """Tempers the outputs of members and reads them as a task does, with the values of a calibration."""

    task: Task
    conformal: Mapping[str, Any]

    def __call__(self, outputs: Tensor, weights: Tensor, temperature: Tensor) -> tuple[Tensor, ...]:
        """(K, B, O), (K,), () -> the readouts, (B, ...) each."""
        return self.task.read(self.task.tempered(outputs, temperature), weights, self.conformal)


def unseen(outputs: Tensor, folds: Tensor) -> Tensor:
    """What the network that was trained without an example's fold says about it: (S, K, N, O), (N,) -> (S, N, O)."""
    return outputs[:, folds, torch.arange(len(folds))]


def member_weights(weights: Tensor | None, outputs: Tensor) -> Tensor:
    """The given weights (K,), or equal ones for outputs (K, N, O)."""
    return outputs.new_full((len(outputs),), 1 / len(outputs)) if weights is None else weights.to(outputs)
