"""What a run found, as one versioned file: reports, tables and tests read it, never the objects behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from polyarch.errors import CorruptFile
from polyarch.files import write_json

VERSION = 2


class Record(BaseModel):
    """Base of everything in the file."""

    model_config = ConfigDict(extra="forbid")


class ScoreRecord(Record):
    """A number for an architecture and how it was taken."""

    estimator: str
    value: float
    policy: str | None


class ScoredArchitecture(Record):
    """An architecture with its scores."""

    architecture: dict[str, str]
    scores: list[ScoreRecord]
    parameters: int
    truth: float | None = None

    def score(self, estimator: str) -> float:
        """The value of one estimator."""
        return next(score.value for score in self.scores if score.estimator == estimator)


class TrainingRecord(Record):
    """The supernet's training: settings by name and one row of measured values per epoch."""

    strategy: str
    history: list[dict[str, float]]
    q: dict[str, list[float]] | None = None


class RankingRecord(Record):
    """Random architectures scored by several estimators, and how far the scores agree.

    ``quality`` maps an estimator to its agreement with the truth where there is one, and otherwise with the first
    estimator.
    """

    reference: str
    architectures: list[ScoredArchitecture]
    quality: dict[str, Any]


class SearchRecord(Record):
    """What was searched and found."""

    sampler: str
    objectives: list[str]
    limits: dict[str, float]
    evaluated: list[ScoredArchitecture]
    best: list[ScoredArchitecture]


class Accuracy(Record):
    """Test results of one trained network."""

    architecture: dict[str, str]
    seed: int
    accuracy: float
    loss: float
    calibration_error: float
    valid_accuracy: float
    history: list[dict[str, float]] = []


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
    detection: dict[str, dict[str, float]] = {}


class Claim(Record):
    """A claim of a document: whether the numbers support it, and the numbers."""

    text: str
    supported: bool | None
    numbers: str


class ExperimentResults(Record):
    """What an experiment found; ``runs`` are its raw results by name."""

    version: int = VERSION
    polyarch: str
    torch: str
    experiment: str
    preset: str
    settings: dict[str, Any]
    claims: list[Claim]
    runs: dict[str, Any]

    def write(self, path: Path) -> None:
        """Atomically, as readable JSON."""
        write_json(path, self.model_dump(mode="json"))


class Results(Record):
    """The whole file. Everything but ``seconds`` is the same bits for the same settings.

    ``predictors`` are the best network alone and the mixtures; ``decisions`` say what was chosen for the user and why.
    """

    version: int = VERSION
    polyarch: str
    torch: str
    settings: dict[str, Any]
    data: dict[str, Any]
    space: dict[str, Any]
    training: TrainingRecord
    ranking: RankingRecord | None = None
    search: SearchRecord | None = None
    comparison: list[Contender] | None = None
    artifact: dict[str, Any] | None = None
    predictors: list[PredictorRecord] = []
    decisions: list[str] = []
    seconds: dict[str, float] = {}

    def write(self, path: Path) -> None:
        """Atomically, as readable JSON."""
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def read(cls, path: Path) -> Results:
        """What ``write`` wrote."""
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise CorruptFile(f"Expected {path} to be a results file. Found: {error}.") from None
        if not isinstance(content, dict) or content.get("version") != VERSION:
            found = content.get("version") if isinstance(content, dict) else type(content).__name__
            raise CorruptFile(f"Expected {path} to be a results file of version {VERSION}. Found {found!r}.")
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise CorruptFile(f"Expected {place} in {path} to fit. Found: {first['msg']}.") from None
