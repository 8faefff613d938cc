"""What a search for a depth found."""

from collections.abc import Sequence

from pydantic import Field

from polyarch.results.predictors import CalibrationRecord, MethodRecord, Record, ResampledRecord

MIXTURE, FULL = "mixture of all depths", "full depth alone"
PRUNED_MIXTURE, PRUNED = "pruned mixture", "pruned network alone"
"""Names of the ways to predict."""


class DepthMeasure(Record):
    """One depth alone: the predictions of its head, no mixture; losses are mean negative log-likelihoods in nats.

    ``q`` is the posterior from which the depth was chosen: ``exact``, for the final weights, or ``learned`` with them.
    All are None for the baseline that trains every depth alone. Values without ``valid_`` are of test data, and
    ``resampled`` has these on bootstrap samples of it.
    """

    depth: int
    parameters: int
    valid_score: float
    valid_loss: float
    score: float
    loss: float
    resampled: ResampledRecord | None = None
    q: float | None = None
    exact: float | None = None
    learned: float | None = None
    prior: float | None = None


class DepthPredictor(Record):
    """A way to predict after a depth search, for example the mixture of all depths or the pruned network alone.

    ``blocks`` are the residual blocks that are computed. ``loss`` is minus the mean log p of the true target on test
    data, ``mean_probability`` the mean p of the true class, where classes are predicted. ``calibration`` is the
    calibration error in ``metrics`` with its noise, ``resampled`` has score and loss on bootstrap samples.
    """

    name: str
    blocks: int
    parameters: int
    valid_score: float
    valid_loss: float
    score: float
    loss: float
    mean_probability: float | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    calibration: CalibrationRecord | None = None
    resampled: ResampledRecord | None = None


class MixtureMeasure(Record):
    """The mixture of the depths up to the chosen one with one kind of weights.

    ``valid_loss`` is cross-validated for stacked weights, which are fitted to validation data. Values without
    ``valid_`` are of test data.
    """

    weighting: str
    weights: list[float]
    valid_loss: float
    score: float
    loss: float
    resampled: ResampledRecord | None = None


class ExitPoint(Record):
    """Early exit at one confidence, of classes; ``mean_depth`` is what test examples used."""

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


class DepthRecord(MethodRecord):
    """How deep a network needs to be: the chosen depth, every depth alone, and ways to predict.

    ``rule`` chose among ``choices``, which map rules to depths, from the ``posterior`` of this name, exact or learned;
    ``other_choices`` are those from the other one. ``divergence`` is KL(learned || exact) in nats. ``weighting`` names
    the weights of the mixture that predicts, out of ``mixtures``. For the baseline that trains every depth alone the
    rule is validation, there are no choices, and prior and updates are empty. ``exit_confidence`` was chosen on
    validation data.
    """

    rule: str
    chosen: int
    choices: dict[str, int]
    expected: float | None
    prior: str
    updates: str
    depths: list[DepthMeasure]
    predictors: list[DepthPredictor]
    posterior: str = "learned"
    other_choices: dict[str, int] = Field(default_factory=dict)
    divergence: float | None = None
    weighting: str = ""
    mixtures: list[MixtureMeasure] = Field(default_factory=list)
    exits: list[ExitPoint] = Field(default_factory=list)
    exit_confidence: float | None = None
    functions: DepthFunctions | None = None

    @property
    def studied(self) -> Sequence[Record]:
        """Every depth alone."""
        return self.depths

    @property
    def deepest(self) -> int:
        """The largest depth on offer."""
        return max(one.depth for one in self.depths)

    @property
    def is_learned(self) -> bool:
        """Whether there is a posterior; the baseline trains every depth alone and has none."""
        return all(one.q is not None for one in self.depths)

    @property
    def chosen_exit(self) -> ExitPoint | None:
        """Early exit at the confidence that was chosen on validation data."""
        return next((one for one in self.exits if one.confidence == self.exit_confidence), None)

    def at(self, depth: int) -> DepthMeasure:
        """One depth alone."""
        return next(one for one in self.depths if one.depth == depth)

    def other_posterior(self, measure: DepthMeasure) -> float | None:
        """The probability of a depth by the posterior that did not choose; None where only one was recorded."""
        return measure.exact if self.posterior == "learned" else measure.learned

    def way(self, name: str) -> DepthPredictor | None:
        """A way to predict, if it was measured."""
        return next((one for one in self.predictors if one.name == name), None)

    def likely(self, share: float = 0.9) -> tuple[int, int]:
        """The shortest range of depths with this share of the posterior."""
        depths, q = [one.depth for one in self.depths], [one.q or 0.0 for one in self.depths]
        ranges = [
            (depths[first], depths[last])
            for first in range(len(q))
            for last in range(first, len(q))
            if sum(q[first : last + 1]) >= share
        ]
        return min(ranges, key=lambda ends: ends[1] - ends[0])
