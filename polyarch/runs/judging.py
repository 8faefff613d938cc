"""How good and how honest a network or an ensemble is: calibrated on validation data, measured on test data."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.data import BatchSource, TensorData, load, resident, shaped_like
from polyarch.errors import ConfigError
from polyarch.nn import StackedNetworks
from polyarch.objectives import log_marginal
from polyarch.predictive import (
    brier,
    calibration_error,
    detect,
    entropy,
    fit_temperature,
    reliability,
    risk_coverage,
    threshold_at,
    uncertainty_scores,
)
from polyarch.results import PredictorRecord, ReliabilityBin
from polyarch.runs.retraining import outputs
from polyarch.runs.run import Run
from polyarch.spaces import Architecture


@dataclass(frozen=True)
class MemberLogits:
    """The logits (K, N, C) of all members on validation and on test examples, with their targets (N,)."""

    valid: Tensor
    valid_targets: Tensor
    test: Tensor
    targets: Tensor

    @classmethod
    def of(cls, run: Run, networks: Callable[[Tensor], Tensor]) -> "MemberLogits":
        """From one pass over the data.

        Args:
            networks: (B, ...) -> (K, B, C), in evaluation mode.
        """
        pairs = (outputs(networks, run.feed.in_order(data)) for data in (run.feed.valid, run.feed.data.test))
        (valid, valid_targets), (test, targets) = pairs
        return cls(valid, valid_targets, test, targets)

    def at(self, members: Sequence[int]) -> "MemberLogits":
        """Those of the members at these positions, in this order."""
        rows = list(members)
        return MemberLogits(self.valid[rows], self.valid_targets, self.test[rows], self.targets)

    def measure(self, weights: Tensor) -> dict[str, float]:
        """Of the mixture of the first members with these weights, (k,)."""
        found: dict[str, float] = {}
        sides = (("valid_", self.valid, self.valid_targets), ("", self.test, self.targets))
        for prefix, logits, targets in sides:
            log_probs = log_marginal(torch.log_softmax(logits[: len(weights)], -1), weights.log())
            true = log_probs.gather(1, targets[:, None])
            found |= {
                f"{prefix}accuracy": float((log_probs.argmax(1) == targets).double().mean()),
                f"{prefix}loss": float(-true.mean()),
                f"{prefix}mean_probability": float(true.exp().mean()),
                f"{prefix}calibration_error": calibration_error(log_probs.exp(), targets),
            }
        return found

    def alone(self, member: int) -> dict[str, float]:
        """Of one member."""
        return self.at([member]).measure(torch.ones(1, dtype=self.valid.dtype))


CURVE_POINTS = 100


@dataclass(frozen=True)
class Ensemble:
    """Networks in evaluation mode whose predictions are mixed; one network is a mixture of one.

    Args:
        architectures: of the K members.
        networks: (B, ...) -> logits (K, B, C): `StackedNetworks`, or one network for all members.
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
    known: MemberLogits | None = None

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

    def logits(self, batches: BatchSource) -> tuple[Tensor, Tensor]:
        """Of every member, (K, N, C) in float64, and targets (N,), from one pass over the data."""
        return outputs(self.networks, batches)

    def temperature(self, logits: Tensor, targets: Tensor) -> float:
        """What its artifact divides logits by, from validation data: (K, N, C), (N,).

        A confidence to leave early at means something at this temperature alone.
        """
        return fit_temperature(logits, targets, self.weights, log_deviation=1.0)

    def log_probabilities(self, logits: Tensor, temperature: float) -> Tensor:
        """log sum_k w_k softmax(logits_k / T): (K, N, C) -> (N, C)."""
        weights = torch.tensor(self.weights, dtype=logits.dtype)
        return log_marginal(torch.log_softmax(logits / temperature, -1), weights.log())


def judge(ensemble: Ensemble, run: Run, ood: BatchSource | None) -> PredictorRecord:
    """Temperature and threshold from validation data, everything else on test data."""
    known = ensemble.known or MemberLogits.of(run, ensemble.networks)
    valid, valid_targets, test, targets = known.valid, known.valid_targets, known.test, known.targets
    temperature = ensemble.temperature(valid, valid_targets)
    log_raw, log_calibrated = (ensemble.log_probabilities(test, value) for value in (1.0, temperature))
    raw, calibrated = log_raw.exp(), log_calibrated.exp()
    doubt = entropy(ensemble.log_probabilities(valid, temperature).exp())
    threshold = threshold_at(doubt, run.settings.retrain.flag)
    uncertainty = entropy(calibrated)
    correct = calibrated.argmax(-1) == targets
    curve = risk_coverage(uncertainty, correct)
    kept = _thinned(len(curve.coverage))
    detection = {}
    if ood is not None:
        foreign, _ = ensemble.logits(ood)
        detection = told_apart(ensemble, test, foreign, temperature)
    return PredictorRecord(
        name=ensemble.name,
        members=[architecture.to_dict() for architecture in ensemble.architectures],
        weights=list(ensemble.weights),
        temperature=temperature,
        accuracy=float(correct.double().mean()),
        loss=float(F.nll_loss(log_calibrated, targets)),
        brier=brier(calibrated, targets),
        calibration_error=calibration_error(calibrated, targets),
        uncalibrated_loss=float(F.nll_loss(log_raw, targets)),
        uncalibrated_calibration_error=calibration_error(raw, targets),
        reliability=[ReliabilityBin(**asdict(part)) for part in reliability(calibrated, targets)],
        coverage=[curve.coverage[index] for index in kept],
        risk=[curve.risk[index] for index in kept],
        threshold=threshold,
        flagged=float((uncertainty > threshold).double().mean()),
        detection=detection,
    )


def told_apart(ensemble: Ensemble, known: Tensor, foreign: Tensor, temperature: float) -> dict[str, dict[str, float]]:
    """How well scores tell OOD examples from test examples, by the logits (K, N, C) and (K, M, C) of the members."""
    inside, outside = (
        uncertainty_scores(torch.softmax(logits / temperature, -1), ensemble.weights) for logits in (known, foreign)
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
