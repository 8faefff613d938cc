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

    @property
    def key(self) -> str:
        """The key of the architecture in its space."""
        return "|".join(self.architecture.values())

    def score(self, estimator: str) -> float:
        """The value of one estimator."""
        return next(score.value for score in self.scores if score.estimator == estimator)


class TrainingRecord(Record):
    """The supernet's training: settings by name and one row of measured values per epoch."""

    strategy: str
    history: list[dict[str, float]]
    q: dict[str, list[float]] | None = None


class IntervalRecord(Record):
    """An estimate with a 95 % bootstrap interval over architectures; None where there is nothing to estimate."""

    value: float | None
    low: float | None
    high: float | None


class TrustRecord(Record):
    """How far the ranking agrees with itself, over ``n`` architectures.

    The agreements are Spearman's correlations: of the two ``estimators``, and of supernets that differ in their seed
    (None with one supernet). ``top_architecture`` is the first by the first estimator, ``top_rank_interval`` the share
    of the other architectures that the other estimators put before it: 0 is the first place, 0.5 what chance gives.
    """

    n: int
    estimators: tuple[str, str]
    estimator_agreement: IntervalRecord
    seed_agreement: IntervalRecord | None
    top_architecture: dict[str, str]
    top_rank_interval: IntervalRecord


class RankingRecord(Record):
    """Random architectures scored by several estimators, and how far the scores agree.

    ``quality`` maps an estimator to its agreement with the truth where there is one, and otherwise with the first
    estimator.
    """

    reference: str
    architectures: list[ScoredArchitecture]
    quality: dict[str, Any]
    trust: TrustRecord | None = None


class EliminatedArchitecture(Record):
    """An architecture, the steps of its short run, and minus the sum of its losses up to there (None: diverged)."""

    architecture: dict[str, str]
    parameters: int
    steps: int
    value: float | None


class EliminationRecord(Record):
    """Random architectures ranked by training speed with early elimination, best first.

    After each of the ``rungs``, in steps, the worse half stops. ``spent`` are the steps of all of them, ``full_steps``
    those of a ranking in which all run to the end.
    """

    rungs: list[int]
    architectures: list[EliminatedArchitecture]
    spent: int
    full_steps: int


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


class DepthMeasure(Record):
    """One depth alone: the predictions of its head, no mixture; losses are mean negative log-likelihoods in nats.

    ``q`` is the learned probability, None for the baseline that trains every depth alone. Values without ``valid_`` are
    of test data.
    """

    depth: int
    parameters: int
    valid_accuracy: float
    valid_loss: float
    accuracy: float
    loss: float
    q: float | None = None
    prior: float | None = None


class DepthPredictor(Record):
    """A way to predict after a depth search, for example the mixture of all depths or the pruned network alone.

    ``blocks`` are the residual blocks that are computed. ``loss`` is minus the mean log p of the true class,
    ``mean_probability`` its mean p, both on test data.
    """

    name: str
    blocks: int
    parameters: int
    valid_accuracy: float
    valid_loss: float
    accuracy: float
    loss: float
    mean_probability: float
    calibration_error: float


class ExitPoint(Record):
    """Early exit at one confidence; ``mean_depth`` is what test examples used."""

    confidence: float
    valid_accuracy: float
    accuracy: float
    loss: float
    mean_depth: float


class DepthFunctions(Record):
    """What is predicted at every depth on a square grid over two inputs, in raw units.

    ``classes`` and ``confidence`` have a text per depth: the base64 of a byte per grid point, row by row from
    ``y_range[0]`` upwards, for the most probable class and for its probability from 0 to 255. ``points`` are training
    examples: x, y, class.
    """

    names: tuple[str, str]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    side: int
    depths: list[int]
    classes: list[str]
    confidence: list[str]
    points: list[tuple[float, float, int]]


class DepthRecord(Record):
    """How deep a network needs to be: the chosen depth, every depth alone, and ways to predict.

    ``rule`` chose among ``choices``, which map rules to depths. For the baseline that trains every depth alone the rule
    is validation, there are no choices, and prior and updates are empty. ``exit_confidence`` was chosen on validation
    data.
    """

    rule: str
    chosen: int
    choices: dict[str, int]
    expected: float | None
    prior: str
    updates: str
    depths: list[DepthMeasure]
    predictors: list[DepthPredictor]
    exits: list[ExitPoint] = []
    exit_confidence: float | None = None
    functions: DepthFunctions | None = None


class DifferentiableRecord(Record):
    """A search by gradients: how q over the relaxed ``choices`` moved, and the architecture that came out.

    ``history`` has a row per epoch (true accuracies in percent), ``architectures`` the key of what q pointed at after
    it, ``marginals`` the probabilities of the options of every choice; options that were dropped have 0.
    ``findings`` are those of the guard against collapse; ``back_to`` is the epoch whose state it put back. ``notation``
    is how others write the architecture, e.g. as a genotype.
    """

    method: str
    gradient: str
    parametrisation: str
    discretisation: str
    architecture: dict[str, str]
    notation: str | None = None
    choices: dict[str, list[str]]
    history: list[dict[str, float]]
    architectures: list[str]
    marginals: list[dict[str, list[float]]]
    findings: list[str] = []
    back_to: int | None = None


class Claim(Record):
    """A claim of a document: whether the numbers support it, and the numbers.

    ``supported`` is None where it cannot be tested here; ``numbers`` then say why. ``number`` is that of the claim in
    the document's list, None for what goes beyond it; ``document`` is what the document reports.
    """

    text: str
    supported: bool | None
    numbers: str
    number: int | None = None
    document: str = "not in the document"

    @property
    def verdict(self) -> str:
        """For people."""
        words = {True: "holds", False: "does not hold at this size", None: "not testable here"}
        return words[self.supported]


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

    ``predictors`` are the best network alone and the mixtures; ``depth`` is there after a search for a depth, where
    ``seconds`` may tell the time of a forward pass: ``forward_full`` and ``forward_pruned``. ``decisions`` say what was
    chosen for the user and why. ``differentiable`` is there after a search by gradients.
    """

    version: int = VERSION
    polyarch: str
    torch: str
    settings: dict[str, Any]
    data: dict[str, Any]
    space: dict[str, Any]
    training: TrainingRecord
    ranking: RankingRecord | None = None
    elimination: EliminationRecord | None = None
    search: SearchRecord | None = None
    comparison: list[Contender] | None = None
    artifact: dict[str, Any] | None = None
    predictors: list[PredictorRecord] = []
    depth: DepthRecord | None = None
    differentiable: DifferentiableRecord | None = None
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
