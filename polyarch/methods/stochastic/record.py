"""What a network with stochastic architectures predicts, together and one by one."""

from collections.abc import Sequence

from pydantic import Field

from polyarch.results.predictors import MethodRecord, Record


class StochasticMember(Record):
    """An architecture with the shared weights; losses are mean negative log-likelihoods in nats.

    ``weight`` is its share of the exported ensemble, 0 where it was left out. ``notation`` is how a wiring is written.
    Values without ``valid_`` are of test data.
    """

    architecture: dict[str, str]
    notation: str | None
    valid_score: float
    valid_loss: float
    score: float
    loss: float
    weight: float


class EnsemblePoint(Record):
    """The first ``members`` architectures by validation loss together, all counting the same, on test data.

    ``calibration_floor`` is the error of a perfectly calibrated predictor with the same confidences,
    ``calibration_low`` and ``calibration_high`` are a 95 % interval.
    """

    members: int
    score: float
    loss: float
    calibration_error: float | None = None
    calibration_floor: float | None = None
    calibration_low: float | None = None
    calibration_high: float | None = None


class NormModesRecord(Record):
    """Validation scores of the same architectures with batch and with running statistics of normalisation layers.

    Higher is better: errors are negated. ``spearman`` is the rank correlation of the two; None where one of them does
    not vary.
    """

    batch: list[float]
    running: list[float]
    spearman: float | None


class StochasticRecord(MethodRecord):
    """One set of weights trained under ``drawn`` architectures, and the ensemble that came out.

    ``members`` are those that may form the ensemble, the lowest validation loss first, out of ``evaluated``; ``curve``
    has a point for every number of the evaluated ones. ``corrupted`` maps a corruption of test images and a score to
    how well the score tells them from the originals. Costs are multiply-accumulates of one example, ``parameters``
    those of the ensemble. ``unlabelled`` is the number of examples without labels that were learned from.
    """

    draws: str
    own_weights: bool
    weighting: str
    drawn: int
    evaluated: int
    members: list[StochasticMember]
    curve: list[EnsemblePoint]
    statistics: NormModesRecord | None = None
    corrupted: dict[str, dict[str, dict[str, float]]] = Field(default_factory=dict)
    member_macs: float
    ensemble_macs: float
    max_macs: float | None = None
    parameters: int
    unlabelled: int = 0

    @property
    def studied(self) -> Sequence[Record]:
        """Those that may form the ensemble."""
        return self.members
