"""Test results: trained networks side by side, and how far their predictions can be trusted."""

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from polyarch.predictive.metrics import Goal, Metric, Unit
from polyarch.tasks import Task, resampled_scores

VERSION = 4


class Record(BaseModel):
    """Base of everything in the file."""

    model_config = ConfigDict(extra="forbid")


class MethodRecord(Record):
    """The section of a method."""

    @property
    def studied(self) -> Sequence[Record]:
        """The networks that the method looked at, where it looked at some, one by one."""
        return ()


class Role(StrEnum):
    """What a contender is in the comparison."""

    BEST = "best"
    """The network that is exported."""
    MIXTURE = "mixture"
    """Several networks that predict together."""
    INHERITED = "inherited"
    """With the weights of the supernet, not trained further."""
    RANDOM = "random"
    """Random architectures, trained or weighted the same way."""
    BASELINE = "baseline"
    """An ordinary network, trained alone."""
    OTHER = "other"


class TaskRecord(Record):
    """What is predicted, and the metric that selection goes by: every ``score`` in the file is a value of it.

    ``names`` are those of the classes, numbers or labels that are predicted.
    """

    kind: str = "classification"
    names: list[str] = Field(default_factory=list)
    metric: str = "accuracy"
    goal: Goal = "maximise"
    title: str = "accuracy"
    unit: Unit = "share"

    @classmethod
    def of(cls, task: Task) -> "TaskRecord":
        """The record of a task."""
        metric = task.selection
        return cls(
            kind=task.kind,
            names=list(task.names),
            metric=metric.name,
            goal=metric.goal,
            title=metric.title,
            unit=metric.unit,
        )

    @property
    def selection(self) -> Metric:
        """The metric that selection goes by."""
        return Metric(self.metric, self.goal, self.title, self.unit)


class CalibrationRecord(Record):
    """A calibration error on test data, and what it is worth.

    ``floor`` is what a perfectly calibrated predictor with the same confidences would have on average, ``low`` and
    ``high`` are a 95 % bootstrap interval.
    """

    error: float
    floor: float
    low: float
    high: float

    @classmethod
    def of(cls, task: Task, outputs: Tensor, targets: Tensor, weights: Tensor) -> "CalibrationRecord | None":
        """Of a mixture, where the task has such an error: (K, N, O), (N, ...), (K,)."""
        found = task.calibration_noise(outputs, targets, weights)
        return None if found is None else cls(**asdict(found))


class ResampledRecord(Record):
    """Score and loss on bootstrap samples of the test examples, which are the same for everyone with as many of them.

    The n-th value of one network and the n-th of another are of the same examples, so that their differences are those
    of a paired comparison. Values are missing where a sample has none.
    """

    score: list[float | None]
    loss: list[float | None]

    @classmethod
    def of(cls, task: Task, outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> "ResampledRecord":
        """Of a mixture: (K, N, O), (N, ...), (K,)."""
        return cls(**resampled_scores(task, outputs, targets, weights))


class NetworkRecord(Record):
    """One trained network: its score and loss on test data, its score on validation data, and all test metrics.

    ``calibration`` is the calibration error among these with its noise, where classes or labels are predicted.
    ``resampled`` says how far score and loss depend on the test examples.
    """

    architecture: dict[str, str]
    seed: int
    score: float
    loss: float
    valid_score: float
    metrics: dict[str, float] = Field(default_factory=dict)
    calibration: CalibrationRecord | None = None
    resampled: ResampledRecord | None = None
    history: list[dict[str, float]] = Field(default_factory=list)


class Contender(Record):
    """One side of the comparison: mean and spread of the scores of its networks."""

    name: str
    role: Role
    mean: float
    std: float
    runs: list[NetworkRecord]


class ReliabilityBin(Record):
    """Predictions whose top probability lies between ``low`` and ``high``."""

    low: float
    high: float
    confidence: float
    accuracy: float
    count: int


class ConformalRecord(Record):
    """Prediction sets or intervals: the coverage asked for, and coverage and mean size (or width) on test data.

    ``values`` are what makes them, as in the artifact.
    """

    asked: float
    covered: float
    size: float
    values: dict[str, Any]


class NumberPoints(Record):
    """Some test examples of one predicted number, for charts."""

    name: str
    true: list[float]
    mean: list[float]
    std: list[float]
    low: list[float]
    high: list[float]


class LevelPoint(Record):
    """The share of test targets inside the central interval that a predictor gives this probability."""

    level: float
    covered: float


class PredictorRecord(Record):
    """How good and how honest the predictions of one network or mixture are on test data.

    ``folder`` is where the run exports it, None for networks that are only compared with. ``score``, ``loss`` and
    ``metrics`` are of calibrated predictions, ``uncalibrated`` those at temperature 1. ``flagged`` is the share of test
    examples whose uncertainty is above ``threshold``. ``coverage`` and ``risk`` are points of the risk-coverage curve:
    the mean error among the share of examples with the least uncertainty. ``reliability`` is of classes, ``levels`` and
    ``points`` are of numbers. ``detection`` says how well a measure of uncertainty tells OOD examples apart.
    ``calibration`` and ``calibration_before`` are the calibration errors of ``metrics`` and ``uncalibrated`` with their
    noise, ``resampled`` has ``score`` and ``loss`` on bootstrap samples of the test data, ``train_score`` is the score
    on up to a thousand training examples.
    """

    name: str
    folder: str | None = None
    members: list[dict[str, str]]
    weights: list[float]
    temperature: float
    score: float
    loss: float
    metrics: dict[str, float]
    uncalibrated: dict[str, float]
    threshold: float
    flagged: float
    coverage: list[float]
    risk: list[float]
    conformal: ConformalRecord | None = None
    reliability: list[ReliabilityBin] = Field(default_factory=list)
    levels: list[LevelPoint] = Field(default_factory=list)
    points: list[NumberPoints] = Field(default_factory=list)
    detection: dict[str, dict[str, float]] = Field(default_factory=dict)
    calibration: CalibrationRecord | None = None
    calibration_before: CalibrationRecord | None = None
    resampled: ResampledRecord | None = None
    train_score: float | None = None
