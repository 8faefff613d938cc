"""The description of a run: what a TOML file or the command line can say, checked before anything starts."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tomli_w
from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
)

from polyarch.errors import ConfigError
from polyarch.files import write_atomically
from polyarch.settings import Settings
from polyarch.runs.spaces import SPACES, CellSettings, SpaceSettings
from polyarch.methods.differentiable.recipes import (
    Q_DECAY,
    Q_RATE,
    RECIPES,
    SOTL_STEPS,
    DifferentiableMethod,
    GradientName,
    Parametrisation,
    Stage,
)
from polyarch.methods.one_shot.strategies import INNER_STEPS, OUTER_RATE, PATHS, PROXIMAL
from polyarch.methods.posterior_guided.search import Q_RATE_FACTOR
from polyarch.methods.depth.search import Rule, Updates
from polyarch.strategies import Draws

DepthMethod = Literal["variational-depth", "deterministic-depth"]
Method = Literal["one-shot", "stochastic", "posterior-guided"] | DepthMethod | DifferentiableMethod
DEPTH_METHODS: tuple[str, ...] = get_args(DepthMethod)
METHODS: tuple[str, ...] = ("one-shot", "stochastic", "posterior-guided", *DEPTH_METHODS, *RECIPES)

Fraction = Annotated[float, Field(gt=0, lt=1)]
NonNegative = Annotated[float, Field(ge=0)]


class DataSettings(Settings):
    """Which data, how it is split, and how batches are augmented.

    ``name`` is a known data set or a path, ``target`` the label column of a table. ``size`` resizes images; ``limit``
    keeps that many training and as many validation examples, class by class. ``outside`` names data of another kind
    on which the uncertainty is tried, ``unlabelled`` more examples to learn from, whose labels do not matter.
    """

    name: str = "digits"
    target: str | None = None
    outside: str | None = None
    unlabelled: str | None = None
    validation: Fraction = 0.25
    split: Literal["stratified", "nb201"] = "stratified"
    size: PositiveInt | None = None
    limit: PositiveInt | None = None
    shift: Annotated[int, Field(ge=0)] = 0
    flip: bool = False
    cutout: Annotated[int, Field(ge=0)] = 0


class OptimiserSettings(Settings):
    """SGD with a cosine schedule, to which the learning rate rises over the first ``warmup_epochs``."""

    epochs: PositiveInt = 60
    batch_size: PositiveInt = 64
    learning_rate: PositiveFloat = 0.1
    final_learning_rate: NonNegative = 0.0
    warmup_epochs: NonNegative = 0.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: NonNegative = 5e-4
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0


OneShotName = Literal["single_path", "fair", "multi_path", "reptile", "meta_prox", "multi_path_meta_prox"]
STRATEGIES: tuple[str, ...] = (*get_args(OneShotName), "variational")


class TrainSettings(OptimiserSettings):
    """How the supernet is trained.

    A step uses one random path, paths that use every operation once (``fair``), or ``paths`` random ones
    (``multi_path...``), and follows their gradients. With ``reptile`` and ``meta_prox`` it takes ``inner_steps`` on
    every path, held at the start with weight ``proximal``, and goes the share ``outer_rate`` of the mean way; learning
    rate, momentum and decay are then those of the inner steps, and momentum starts afresh on every path.

    ``variational`` learns q with the weights: exactly for a depth, from sampled paths otherwise. After ``patience``
    epochs without a better value training stops and the best state is kept: the validation loss is watched, or, where
    an epoch is one full batch, the training objective.
    """

    epochs: PositiveInt = 120
    strategy: OneShotName | Literal["variational"] = "single_path"
    paths: PositiveInt = PATHS
    inner_steps: PositiveInt = INNER_STEPS
    outer_rate: PositiveFloat = OUTER_RATE
    proximal: NonNegative = PROXIMAL
    samples: PositiveInt = 2
    prior_ratio: PositiveFloat = 0.85
    patience: PositiveInt | None = None


EstimatorName = Literal[
    "sotl", "sotl_last", "sotl_ema", "sovl", "tl_mini", "sog", "sogn",
    "val_acc", "val_acc_mini", "params", "macs", "latency",
]  # fmt: skip
PolicyName = Literal["running", "batch", "adapt", "reestimate"]


class EstimatorSettings(Settings):
    """How architectures are scored.

    The first settings are of the short run that all estimators of training speed share; ``last_share`` is the part of
    it that ``sotl_last`` counts, ``ema_decay`` how slowly ``sotl_ema`` forgets.
    """

    steps: PositiveInt = 50
    learning_rate: PositiveFloat = 0.001
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    batch_size: PositiveInt = 64
    last_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    ema_decay: Annotated[float, Field(ge=0, lt=1)] = 0.9
    policy: PolicyName = "adapt"
    policy_batches: PositiveInt = 20
    latency_batch_size: PositiveInt = 1


class RankSettings(Settings):
    """Which random architectures are ranked, by what, and against which truth; none with 0 ``architectures``.

    With 2 ``supernets`` a second one, of another seed, is trained beside the first and ranks them too: how far the two
    agree says how far to trust the ranking. With ``halving`` the worse half is eliminated again and again in the course
    of the short run, by its losses so far alone: a ranking at a part of the cost.
    """

    architectures: NonNegativeInt = 24
    estimators: tuple[EstimatorName, ...] = ("sotl_last", "val_acc", "params", "macs")
    truth: str | None = None
    supernets: Annotated[int, Field(ge=1, le=2)] = 2
    halving: bool = False


class SearchSettings(Settings):
    """How the best architecture is looked for."""

    sampler: Literal["random", "exhaustive", "evolution", "nsga2"] = "evolution"
    objectives: Annotated[tuple[EstimatorName, ...], Field(min_length=1)] = ("sotl_last",)
    budget: PositiveInt = 60
    batch: PositiveInt = 10
    population: PositiveInt = 20
    tournament: PositiveInt = 5
    max_params: PositiveFloat | None = None
    max_macs: PositiveFloat | None = None
    max_latency: PositiveFloat | None = None


class DepthSettings(Settings):
    """How a depth is chosen, by the methods ``variational-depth`` and ``deterministic-depth``.

    ``prior`` may also be given: a weight for every depth. ``depths`` are those that ``deterministic-depth`` trains, up
    to eight evenly spread ones by default.
    """

    rule: Rule = "argmax"
    prior: Literal["geometric", "uniform"] | Annotated[tuple[PositiveFloat, ...], Field(min_length=2)] = "geometric"
    updates: Updates = "gradient"
    depths: tuple[NonNegativeInt, ...] = ()


class StageSettings(Settings):
    """One stage of a progressive search; see `polyarch.methods.differentiable.recipes.Stage`."""

    depth: PositiveInt | None = None
    options: PositiveInt
    skip_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    def value(self) -> Stage:
        """What a search takes."""
        return Stage(self.depth, self.options, self.skip_dropout)


class DifferentiableSettings(Settings):
    """How a differentiable search learns q, and how it comes to one architecture.

    ``gradient`` and ``parametrisation`` are those of the method unless they are given. ``steps`` are T of the sums of
    losses, ``repeat`` whether these steps are taken again with the new architecture. q is left alone for the first
    ``warmup_epochs``. ``weigh_edges`` gives the edges of DARTS cells weights of their own. ``stages`` make the search
    progressive; they share the epochs equally. ``perturbation`` chooses what is missed most instead of what is
    strongest; ``tune_steps`` are taken after each of its decisions, and ``perturbation_batches`` of held-out data judge
    them. ``guard`` says what happens when the search collapses. The dominant eigenvalue is measured every
    ``eigenvalue_every`` epochs, on one batch; 0 leaves it out. Where ``rank.truth`` knows the architecture of an epoch,
    its accuracy is followed, too.
    """

    gradient: GradientName = "first_order"
    parametrisation: Parametrisation = "softmax"
    steps: PositiveInt = SOTL_STEPS
    repeat: bool = True
    q_learning_rate: PositiveFloat = Q_RATE
    q_weight_decay: NonNegative = Q_DECAY
    warmup_epochs: NonNegativeInt = 0
    weigh_edges: bool = False
    stages: tuple[StageSettings, ...] = ()
    max_skips: NonNegativeInt | None = None
    discretisation: Literal["strongest", "perturbation"] = "strongest"
    perturbation_batches: PositiveInt = 4
    tune_steps: NonNegativeInt = 10
    guard: Literal["off", "warn", "stop", "roll_back"] = "warn"
    eigenvalue_every: NonNegativeInt = 0


class StochasticSettings(Settings):
    """How one network is trained under many architectures that predict together, by the method ``stochastic``.

    ``architectures`` are drawn before training, wirings with ``edge_probability``; ``draws`` says what gets one of its
    own. With ``own_weights`` every wiring has some weights to itself. Of up to 50 of them the ``members`` best on
    validation examples form the ensemble, as far as ``max_macs`` goes: multiply-accumulates of all of it for one
    example. ``weighting`` says how their shares are found, on validation examples as well. With ``data.unlabelled`` the
    distance of two answers under different architectures counts ``consistency_weight`` times, reached after
    ``ramp_share`` of all steps.
    """

    architectures: PositiveInt = 5
    draws: Draws = "example"
    own_weights: bool = True
    edge_probability: Annotated[float, Field(ge=0, le=1)] = 0.3
    members: PositiveInt = 5
    weighting: Literal["uniform", "posterior", "stacked"] = "uniform"
    max_macs: PositiveFloat | None = None
    consistency_weight: NonNegative = 2.0
    ramp_share: Annotated[float, Field(ge=0, le=1)] = 0.3


class GuidedSettings(Settings):
    """How a posterior over kept and dropped channels is learned and drawn from, by the method ``posterior-guided``.

    ``length_scale`` is d of the prior; a larger one makes smaller networks. ``drop`` is the drop probability of all
    layers at the start, ``temperature`` that of relaxed draws, ``q_rate_factor`` how much faster than the kernels drop
    probabilities are learned. ``constant_decay`` stands in place of d^2 (1 - p) / (2N), if it is given. After the
    training ``candidates`` are drawn, and ``random_candidates`` with one drop rate for all to compare with. The best
    on validation examples is trained further for ``tune_epochs`` with ``tune_learning_rate``; it is exported as it was
    drawn if that is better. ``members`` draws form the mixture.
    """

    length_scale: NonNegative = 7.0
    drop: Fraction = 0.1
    temperature: PositiveFloat = 0.2
    q_rate_factor: PositiveFloat = Q_RATE_FACTOR
    constant_decay: NonNegative | None = None
    candidates: PositiveInt = 200
    random_candidates: NonNegativeInt = 50
    members: PositiveInt = 5
    tune_epochs: NonNegativeInt = 3
    tune_learning_rate: PositiveFloat = 0.01


class RetrainSettings(OptimiserSettings):
    """How the best architectures, and random ones for comparison, are trained from scratch.

    The best is trained with ``seeds`` seeds; the ``members`` best form an ensemble. ``flag`` is the share of
    validation examples that count as uncertain, which sets the threshold of the flag on predictions.
    """

    epochs: PositiveInt = 20
    seeds: PositiveInt = 3
    members: PositiveInt = 3
    random_architectures: NonNegativeInt = 10
    flag: Fraction = 0.05


class TruthSettings(Settings):
    """Which architectures `polyarch truth build` trains alone, by ``retrain``, and with how many seeds each.

    ``architectures`` random ones, no network twice; ``"all"`` trains the whole space.
    """

    architectures: PositiveInt | Literal["all"] = 64
    seeds: PositiveInt = 1


class RunSettings(Settings):
    """A whole run.

    ``method`` is how the architecture is found. ``max_minutes`` bounds the time of a search. ``programs`` are exported
    with every artifact. ``decisions`` say what was chosen for the user and why.
    """

    method: Method = "one-shot"
    seed: int = 0
    max_minutes: PositiveFloat | None = None
    decisions: tuple[str, ...] = ()
    device: str = "cpu"
    workers: PositiveInt = Field(default_factory=lambda: len(os.sched_getaffinity(0)))
    checkpoint_seconds: NonNegative = 20.0
    programs: tuple[Literal["pt2", "onnx"], ...] = ("pt2", "onnx")
    tensorboard: bool = False
    data: DataSettings = DataSettings()
    space: SpaceSettings = CellSettings()
    train: TrainSettings = TrainSettings()
    scores: EstimatorSettings = EstimatorSettings()
    rank: RankSettings = RankSettings()
    search: SearchSettings = SearchSettings()
    depth: DepthSettings = DepthSettings()
    differentiable: DifferentiableSettings = DifferentiableSettings()
    stochastic: StochasticSettings = StochasticSettings()
    guided: GuidedSettings = GuidedSettings()
    retrain: RetrainSettings = RetrainSettings()
    truth: TruthSettings = TruthSettings()

    @property
    def is_differentiable(self) -> bool:
        """Whether the architecture is found by a differentiable search."""
        return self.method in RECIPES

    @field_validator("space", mode="before")
    @classmethod
    def _default_kind(cls, value: Any) -> Any:
        return {"kind": "nb201", **value} if isinstance(value, Mapping) else value

    @classmethod
    def read(cls, path: Path) -> RunSettings:
        """From a TOML file."""
        return cls.parse(read_toml(path), str(path))

    @classmethod
    def parse(cls, content: Mapping[str, Any], origin: str) -> RunSettings:
        """From plain values; the first thing that does not fit is named in one sentence."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            named = (str(part) for part in first["loc"] if part not in SPACES)
            place = ".".join(part for part in named if not {"[", "-"} & set(part))  # kinds of values are no names
            raise ConfigError(
                f"Expected {place or 'the settings'} in {origin} to fit: {first['msg']}. Got {first['input']!r}."
            ) from None

    def write(self, path: Path) -> None:
        """As TOML, every value spelt out."""
        write_atomically(path, tomli_w.dumps(self.model_dump(mode="json", exclude_none=True)))


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"Expected a run description at {path}. Found no such file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"Expected {path} to be TOML. Found: {error}.") from None
