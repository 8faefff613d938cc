"""How good and how honest a network or an ensemble is: calibrated on validation data, measured on test data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.data import BatchSource, TensorData, load, resident
from polyarch.data.dataset import resize
from polyarch.errors import ConfigError
from polyarch.jobs.parts import Parts
from polyarch.jobs.retraining import outputs
from polyarch.predictive import (
    brier,
    calibration_error,
    detect,
    entropy,
    fit_temperature,
    mutual_information,
    reliability,
    risk_coverage,
    threshold_at,
)
from polyarch.results import PredictorRecord, ReliabilityBin
from polyarch.spaces import Architecture

CURVE_POINTS = 100


def judge(
    name: str, members: Sequence[tuple[Architecture, nn.Module]], parts: Parts, outside: BatchSource | None
) -> PredictorRecord:
    """An equally weighted mixture of networks in evaluation mode; one network is a mixture of one."""
    valid, valid_targets = _member_logits(members, parts.evaluation_batches(parts.valid))
    test, targets = _member_logits(members, parts.evaluation_batches(parts.data.test))
    temperature = fit_temperature(valid, valid_targets)
    raw, calibrated = _mixture(test, 1.0), _mixture(test, temperature)
    threshold = threshold_at(entropy(_mixture(valid, temperature)), parts.settings.retrain.flag)
    uncertainty = entropy(calibrated)
    correct = calibrated.argmax(-1) == targets
    curve = risk_coverage(uncertainty, correct)
    kept = _thinned(len(curve.coverage))
    detection = {}
    if outside is not None:
        foreign, _ = _member_logits(members, outside)
        scores = {"entropy": (uncertainty, entropy(_mixture(foreign, temperature)))}
        if len(members) > 1:
            scores["mutual_information"] = (_disagreement(test, temperature), _disagreement(foreign, temperature))
        detection = {kind: asdict(detect(*pair)) for kind, pair in scores.items()}
    return PredictorRecord(
        name=name,
        members=[architecture.to_dict() for architecture, _ in members],
        weights=[1 / len(members)] * len(members),
        temperature=temperature,
        accuracy=float(correct.double().mean()),
        loss=_loss(test, temperature, targets),
        brier=brier(calibrated, targets),
        calibration_error=calibration_error(calibrated, targets),
        uncalibrated_loss=_loss(test, 1.0, targets),
        uncalibrated_calibration_error=calibration_error(raw, targets),
        reliability=[ReliabilityBin(**asdict(part)) for part in reliability(calibrated, targets)],
        coverage=[curve.coverage[index] for index in kept],
        risk=[curve.risk[index] for index in kept],
        threshold=threshold,
        flagged=float((uncertainty > threshold).double().mean()),
        detection=detection,
    )


def outside_batches(parts: Parts) -> BatchSource | None:
    """Examples of another kind, brought to the shape of the data, if the settings name some."""
    name = parts.settings.data.outside
    if name is None:
        return None
    other = load(name)
    if not (parts.data.is_image and other.is_image):
        raise ConfigError(f"Expected images on both sides for data.outside. Got {parts.data.name!r} and {name!r}.")
    channels, height, width = parts.data.input_shape
    if height != width:
        raise ConfigError(f"Expected square images for data.outside. Got {height}x{width} pixels.")
    images = resize(resident(other.test).inputs, height)
    if images.is_floating_point():
        images = (images * 255).round().clamp(0, 255).byte()
    if channels == 1 and images.shape[1] > 1:
        images = images.float().mean(1, keepdim=True).round().byte()
    if not parts.data.is_bytes:
        images = images.float() / 255
    shaped = images.expand(-1, channels, -1, -1).contiguous()
    return parts.evaluation_batches(TensorData(shaped, torch.zeros(len(shaped), dtype=torch.int64), 1))


def _member_logits(members: Sequence[tuple[Architecture, nn.Module]], batches: BatchSource) -> tuple[Tensor, Tensor]:
    """Logits (K, N, C) in float64 and targets (N,)."""
    pairs = [outputs(network, batches) for _, network in members]
    return torch.stack([logits for logits, _ in pairs]), pairs[0][1]


def _mixture(logits: Tensor, temperature: float) -> Tensor:
    """mean_k softmax(logits_k / T): (K, N, C) -> (N, C)."""
    return torch.softmax(logits / temperature, -1).mean(0)


def _disagreement(logits: Tensor, temperature: float) -> Tensor:
    return mutual_information(torch.softmax(logits / temperature, -1))


def _loss(logits: Tensor, temperature: float, targets: Tensor) -> float:
    """The mixture's negative log-likelihood in nats, from logarithms: finite also where a probability rounds to 0."""
    log_p = torch.log_softmax(logits / temperature, -1)
    log_mixture = torch.logsumexp(log_p, 0) - torch.log(torch.tensor(float(len(logits))))
    return float(F.nll_loss(log_mixture, targets))


def _thinned(count: int) -> list[int]:
    """At most a hundred positions, the first and the last among them."""
    return sorted({round(index * (count - 1) / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)})
