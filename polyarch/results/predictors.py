"""Test results: trained networks side by side, and how far their predictions can be trusted."""

from __future__ import annotations

from pydantic import Field

from polyarch.results.record import Record


class Accuracy(Record):
    """Test results of one trained network."""

    architecture: dict[str, str]
    seed: int
    accuracy: float
    loss: float
    calibration_error: float
    valid_accuracy: float
    history: list[dict[str, float]] = Field(default_factory=list)


class Contender(Record):
    """One side of the comparison: mean and spread over its networks."""

    name: str
    mean: float
    std: float
    runs: list[Accuracy]


class ReliabilityBin(Record):
    """Predictions whose top probability lies between ``low`` and ``high``."""

    low: float
    high: float
    confidence: float
    accuracy: float
    count: int


class PredictorRecord(Record):
    """How good and how honest the predictions of one network or mixture are on test data.

    ``uncalibrated_*`` are the values at temperature 1. ``coverage`` and ``risk`` are points of the risk-coverage
    curve: the error rate among the share of examples with the least entropy. ``flagged`` is the share of test examples
    with an entropy above ``threshold``. ``detection`` says how well a score tells examples of another kind apart.
    """

    name: str
    members: list[dict[str, str]]
    weights: list[float]
    temperature: float
    accuracy: float
    loss: float
    brier: float
    calibration_error: float
    uncalibrated_loss: float
    uncalibrated_calibration_error: float
    reliability: list[ReliabilityBin]
    coverage: list[float]
    risk: list[float]
    threshold: float
    flagged: float
    detection: dict[str, dict[str, float]] = Field(default_factory=dict)
