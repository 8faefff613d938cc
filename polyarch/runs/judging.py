"""How good and how honest a network or an ensemble is: calibrated on validation data, measured on test data."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.data import BatchSource, TensorData, load, resident, shaped_like
from polyarch.errors import ConfigError
from polyarch.nn import StackedNetworks
from polyarch.predictive import detect, reliability
from polyarch.predictive.classification_metrics import set_coverage, set_size
from polyarch.predictive.regression_metrics import interval_coverage, interval_width
from polyarch.predictive.selective_prediction import risk_coverage
from polyarch.randomness import generator_at
from polyarch.results import (
    CalibrationRecord,
    ConformalRecord,
    LevelPoint,
    NumberPoints,
    PredictorRecord,
    ReliabilityBin,
    ResampledRecord,
)
from polyarch.runs.retraining import outputs
from polyarch.runs.run import Run
from polyarch.spaces import Architecture
from polyarch.tasks import Calibration, Classification, Regression, Task, prediction_sets


@dataclass(frozen=True)
class MemberOutputs:
    """The outputs (K, N, O) of all members on validation and on test examples, with their targets (N, ...)."""

    task: Task
    valid: Tensor
    valid_targets: Tensor
    test: Tensor
    targets: Tensor

    @classmethod
    def of(cls, run: Run, networks: Callable[[Tensor], Tensor]) -> "MemberOutputs":
        """From one pass over the data.

        Args:
            networks: (B, ...) -> (K, B, O), in evaluation mode.
        """
        pairs = (outputs(networks, run.feed.in_order(data)) for data in (run.feed.valid, run.feed.data.test))
        (valid, valid_targets), (test, targets) = pairs
        return cls(run.task, valid, valid_targets, test, targets)

    def at(self, members: Sequence[int]) -> "MemberOutputs":
        """Those of the members at these positions, in this order."""
        rows = list(members)
        return MemberOutputs(self.task, self.valid[rows], self.valid_targets, self.test[rows], self.targets)

    def measure(self, weights: Tensor, *, names: Sequence[str] | None = ()) -> dict[str, Any]:
        """Scores and losses of the mixture of the first members with these weights, (k,), and ``metrics`` on test data.

        If the calibration error is one of these, ``calibration`` has its noise. With all metrics come their values on
        ``resampled`` examples.

        Args:
            names: of further metrics; None for all.
        """
        count, name = len(weights), self.task.selection.name
        valid = self.task.scores(self.valid[:count], self.valid_targets, weights)
        wanted = None if names is None else list(dict.fromkeys(["loss", name, *names]))
        test = self.task.measure(self.test[:count], self.targets, weights, names=wanted)
        found = {
            "score": test[name],
            "loss": test["loss"],
            "valid_score": valid[name],
            "valid_loss": valid["loss"],
            "metrics": test,
        }
        if "calibration_error" in test:
            noise = CalibrationRecord.of(self.task, self.test[:count], self.targets, weights)
            found["calibration"] = noise and noise.model_dump()  # plain values, for journals
        if names is None:
            found["resampled"] = ResampledRecord.of(self.task, self.test[:count], self.targets, weights).model_dump()
        return found

    def alone(self, member: int, *, names: Sequence[str] | None = ()) -> dict[str, Any]:
        """Of one member."""
        return self.at([member]).measure(torch.ones(1, dtype=self.valid.dtype), names=names)


CURVE_POINTS = 100
TRAINING_EXAMPLES = 1000
"""That tell whether a network fits what it was trained on."""
SHOWN_POINTS = 500
"""Test examples of a regression that charts show."""
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Probabilities of the central intervals whose coverage is measured."""


@dataclass(frozen=True)
class Ensemble:
    """Networks in evaluation mode whose predictions are mixed; one network is a mixture of one.

    Args:
        architectures: of the K members.
        networks: (B, ...) -> outputs (K, B, O): `StackedNetworks`, or one network for all members.
        weights: the members' shares, which sum to 1.
        exit_confidence: how sure the exits of one network must be for an example to leave early, where this was chosen.
        inherited: whether the networks come out of the supernet, with what its inter-choice weights made of them.
        known: what the members say about validation and test examples, where it has been computed before.
    """

    name: str
    architectures: Sequence[Architecture]
    networks: nn.Module
    weights: Sequence[float]
    exit_confidence: float | None = None
    inherited: bool = False
    known: MemberOutputs | None = None

    @classmethod
    def of(
        cls,
        name: str,
        members: Sequence[tuple[Architecture, nn.Module]],
        weights: Sequence[float] | None = None,
        *,
        inherited: bool = False,
    ) -> "Ensemble":
        """Members with a network each; by default all count the same."""
        architectures = [architecture for architecture, _ in members]
        networks = StackedNetworks(network for _, network in members)
        return cls(name, architectures, networks, weights or [1 / len(members)] * len(members), inherited=inherited)

    def outputs(self, batches: BatchSource) -> tuple[Tensor, Tensor]:
        """Of every member, (K, N, O) in float64, and targets (N, ...), from one pass over the data."""
        return outputs(self.networks, batches)


def judge(ensemble: Ensemble, run: Run, ood: BatchSource | None) -> tuple[PredictorRecord, Calibration]:
    """Fits the calibration to validation data and measures everything else on test data."""
    task = run.task
    known = ensemble.known or MemberOutputs.of(run, ensemble.networks)
    weights = torch.tensor(ensemble.weights, dtype=known.valid.dtype)
    calibration = task.calibrate(known.valid, known.valid_targets, weights, flag=run.settings.retrain.flag)
    calibrated = task.tempered(known.test, calibration.temperature)
    metrics = task.measure(calibrated, known.targets, weights)
    read = task.read(calibrated, weights, calibration.conformal)
    uncertainty = task.uncertainty(read)
    curve = risk_coverage(uncertainty, task.errors(read, known.targets))
    kept = _thinned(len(curve.coverage))
    detection = {}
    if ood is not None:
        foreign, _ = ensemble.outputs(ood)
        detection = told_apart(task, ensemble, known.test, foreign, calibration.temperature)
    record = PredictorRecord(
        name=ensemble.name,
        members=[architecture.to_dict() for architecture in ensemble.architectures],
        weights=list(ensemble.weights),
        temperature=calibration.temperature,
        score=metrics[task.selection.name],
        loss=metrics["loss"],
        metrics=metrics,
        uncalibrated=task.measure(known.test, known.targets, weights),
        threshold=calibration.threshold,
        flagged=float((uncertainty > calibration.threshold).double().mean()),
        coverage=[curve.coverage[index] for index in kept],
        risk=[curve.risk[index] for index in kept],
        detection=detection,
        calibration=CalibrationRecord.of(task, calibrated, known.targets, weights),
        calibration_before=CalibrationRecord.of(task, known.test, known.targets, weights),
        resampled=ResampledRecord.of(task, calibrated, known.targets, weights),
        train_score=_train_score(ensemble, run, weights),
        **_details(task, calibrated, weights, read, known.targets, calibration),
    )
    return record, calibration


def _train_score(ensemble: Ensemble, run: Run, weights: Tensor) -> float | None:
    """On some training examples, of classes only: a calibration error means little where these are not learned."""
    if not isinstance(run.task, Classification):
        return None
    rows = torch.randperm(len(run.feed.train), generator=generator_at(run.settings.seed, "training accuracy", 0))
    some = run.feed.in_order(run.feed.train.subset(rows[:TRAINING_EXAMPLES]))
    found, targets = ensemble.outputs(some)
    return run.task.scores(found, targets, weights)[run.task.selection.name]


def _details(
    task: Task, outputs: Tensor, weights: Tensor, read: Sequence[Tensor], targets: Tensor, calibration: Calibration
) -> dict[str, Any]:
    """What only classes, or only numbers, have."""
    if isinstance(task, Classification):
        found: dict[str, Any] = {
            "reliability": [ReliabilityBin(**asdict(part)) for part in reliability(read[0], targets)]
        }
        sets = prediction_sets(calibration.conformal)
        if sets is not None:
            mask = sets(read[0])
            covered, size = set_coverage(mask, targets), set_size(mask)
            found["conformal"] = _conformal(task.coverage, covered, size, calibration)
        return found
    if isinstance(task, Regression):
        mean, deviation, _, _, low, high = read
        found = {
            "levels": _levels(task, outputs, weights, targets),
            "points": _points(task, mean, deviation, low, high, targets),
        }
        if calibration.conformal:
            covered, size = float(interval_coverage(low, high, targets).mean()), float(interval_width(low, high).mean())
            found["conformal"] = _conformal(task.coverage, covered, size, calibration)
        return found
    return {}


def _conformal(asked: float, covered: float, size: float, calibration: Calibration) -> ConformalRecord:
    return ConformalRecord(asked=asked, covered=covered, size=size, values=dict(calibration.conformal))


def _levels(task: Regression, outputs: Tensor, weights: Tensor, targets: Tensor) -> list[LevelPoint]:
    """The coverage of the central intervals of the predictive distribution, without conformal correction."""
    ranks = task.mixture(outputs, weights).cdf(targets.to(outputs))  # (N, T)
    distance = 2 * (ranks - 0.5).abs()
    return [LevelPoint(level=level, covered=float((distance <= level).double().mean())) for level in LEVELS]


def _points(
    task: Regression, mean: Tensor, deviation: Tensor, low: Tensor, high: Tensor, targets: Tensor
) -> list[NumberPoints]:
    rows = torch.linspace(0, len(targets) - 1, min(len(targets), SHOWN_POINTS)).round().long()
    found = []
    for index, name in enumerate(task.names):
        columns = (targets, mean, deviation, low, high)
        true, expected, std, bottom, top = (column[rows, index].tolist() for column in columns)
        found.append(NumberPoints(name=name, true=true, mean=expected, std=std, low=bottom, high=top))
    return found


def told_apart(
    task: Task, ensemble: Ensemble, known: Tensor, foreign: Tensor, temperature: float
) -> dict[str, dict[str, float]]:
    """How well scores tell OOD examples from test examples, by the outputs (K, N, O) and (K, M, O) of the members."""
    weights = torch.tensor(ensemble.weights, dtype=known.dtype)
    inside, outside = (
        task.uncertainty_scores(task.tempered(outputs, temperature), weights) for outputs in (known, foreign)
    )
    return {kind: asdict(detect(inside[kind], outside[kind])) for kind in inside}


def ood_batches(run: Run) -> BatchSource | None:
    """OOD examples, brought to the shape of the data, if the settings name some."""
    name = run.settings.data.ood
    if name is None:
        return None
    other = load(name)
    if not (run.feed.data.is_image and other.is_image):
        raise ConfigError(f"Expected images on both sides for data.ood. Got {run.feed.data.name!r} and {name!r}.")
    _, height, width = run.feed.data.input_shape
    if height != width:
        raise ConfigError(f"Expected square images for data.ood. Got {height}x{width} pixels.")
    shaped = shaped_like(resident(other.test).inputs, run.feed.data.input_shape, as_bytes=run.feed.data.is_bytes)
    return run.feed.in_order(TensorData(shaped, torch.zeros(len(shaped), dtype=torch.int64), 1))


def _thinned(count: int) -> list[int]:
    """At most a hundred positions, the first and the last among them."""
    return sorted({round(index * (count - 1) / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)})
