"""Test results: trained networks side by side, and how far their predictions can be trusted."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

VERSION = 3


class Record(BaseModel):
    """Base of everything in the file."""

    model_config = ConfigDict(extra="forbid")


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
    role: Role
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

    ``folder`` is where the run exports it, None for networks that are only compared with. ``uncalibrated_*`` are the
    values at temperature 1. ``coverage`` and ``risk`` are points of the risk-coverage curve: the error rate among the
    share of examples with the least entropy. ``flagged`` is the share of test examples with an entropy above
    ``threshold``. ``detection`` says how well a score tells OOD examples apart.
    """

    name: str
    folder: str | None = None
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
