"""The sections of a run description that methods share."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic_core import PydanticCustomError

from polyarch.data.augmentations import Interpolation
from polyarch.data.table_encoding import NumberScaling
from polyarch.errors import UnknownName
from polyarch.executors import ExecutorName
from polyarch.plugins import ESTIMATORS, SAMPLERS, STRATEGIES, Registry
from polyarch.predictive.conformal_intervals import IntervalMethod
from polyarch.predictive.conformal_sets import SetMethod
from polyarch.settings import Settings

Fraction = Annotated[float, Field(gt=0, lt=1)]
NonNegative = Annotated[float, Field(ge=0)]

LARGEST_RATE = 1e30
"""Far above anything that trains, and what float32 can multiply."""
Rate = Annotated[float, Field(gt=0, le=LARGEST_RATE)]
Decay = Annotated[float, Field(ge=0, le=LARGEST_RATE)]


def _known(registry: Registry) -> Callable[[str], str]:
    """Refuses names that the registry does not have; nothing is imported."""

    def check(name: str) -> str:
        try:
            return registry.check(name)
        except UnknownName:
            raise PydanticCustomError("unknown_name", f"one of {', '.join(registry)}, or package.module:name") from None

    return check


StrategyName = Annotated[str, AfterValidator(_known(STRATEGIES))]
EstimatorName = Annotated[str, AfterValidator(_known(ESTIMATORS))]
SamplerName = Annotated[str, AfterValidator(_known(SAMPLERS))]


class DataSettings(Settings):
    """Which data, how it is split, and how batches are augmented.

    ``name`` is a known data set or a path, ``target`` the label column of a table. ``size`` resizes images; ``limit``
    keeps that many training and as many validation examples, class by class. ``ood`` names out-of-distribution
    data on which the uncertainty is tried, ``unlabelled`` more examples to learn from, whose labels do not matter.

    ``valid`` and ``test`` name sources of validation and test examples; without them the share ``validation`` of the
    training examples and those that loading set aside serve. Examples with the same value in the column ``group`` are
    held out together, or the latest by the column ``time``.

    ``numbers`` says how the numbers of a table are scaled: to mean 0 and standard deviation 1, or by ``quantile``, so
    that their ranks have a normal distribution and outliers do not matter.

    Training images are enlarged from random boxes with at least the share ``scale`` of the area, by ``interpolation``,
    shifted by up to ``shift`` pixels, flipped, changed in colour by ``jitter``, and lose a square of side ``cutout``.
    """

    name: str = "digits"
    target: str | None = None
    ood: str | None = None
    unlabelled: str | None = None
    valid: str | None = None
    test: str | None = None
    group: str | None = None
    time: str | None = None
    validation: Fraction = 0.25
    split: Literal["stratified", "nb201"] = "stratified"
    size: PositiveInt | None = None
    limit: PositiveInt | None = None
    numbers: NumberScaling = "standard"
    shift: Annotated[int, Field(ge=0)] = 0
    flip: bool = False
    cutout: Annotated[int, Field(ge=0)] = 0
    scale: Annotated[float, Field(gt=0, le=1)] = 1.0
    interpolation: Interpolation = "bilinear"
    jitter: Annotated[float, Field(ge=0, lt=1)] = 0.0


class TaskSettings(Settings):
    """What is predicted.

    ``kind`` is what targets are, or ``auto`` for what they look like; ``metric`` what selection goes by, the first of
    the task by default. ``class_weights`` may be balanced, so that rare classes count as much as frequent ones while
    training. ``coverage`` is that of conformal prediction: ``sets`` of classes, ``intervals`` of numbers.
    """

    kind: Literal["auto", "classification", "regression", "multi-label", "own"] = "auto"
    metric: str | None = None
    class_weights: Literal["none", "balanced"] = "none"
    coverage: Fraction = 0.9
    sets: SetMethod = "lac"
    intervals: IntervalMethod = "scaled"


class OptimiserSettings(Settings):
    """SGD with a cosine schedule, to which the learning rate rises over the first ``warmup_epochs``.

    Unless ``decay_norms``, the scales and shifts of batch normalisation do not decay.
    """

    epochs: PositiveInt = 60
    batch_size: PositiveInt = 64
    learning_rate: Rate = 0.1
    final_learning_rate: Decay = 0.0
    warmup_epochs: NonNegative = 0.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: Decay = 5e-4
    decay_norms: bool = True
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0


THESIS_PROXIMAL = 10.0
"""lambda of MetaProx in the thesis "Improving weight-sharing Neural Architecture Search with a marginal likelihood
estimator"."""
CODE_PROXIMAL = 0.1
"""lambda of MetaProx in the code of the same thesis."""


class TrainSettings(OptimiserSettings):
    """How the supernet is trained.

    A step uses one random path, paths that use every operation once (``fair``), or ``paths`` random ones
    (``multi_path...``), and follows their gradients. With ``reptile`` and ``meta_prox`` it takes ``inner_steps`` on
    every path, all on the ``same_batch`` or each on its own, held at the start with weight ``proximal``, and goes the
    share ``outer_rate`` of the mean way; learning rate, momentum and decay are then those of the inner steps, and
    momentum starts afresh on every path.

    ``variational`` learns q with the weights: exactly for a depth, from sampled paths otherwise. After ``patience``
    epochs without a better value training stops and the best state is kept: the validation loss is watched, or, where
    an epoch is one full batch, the training objective.
    """

    epochs: PositiveInt = 120
    strategy: StrategyName = "single_path"
    paths: PositiveInt = 4
    inner_steps: PositiveInt = 4
    same_batch: bool = True
    outer_rate: Rate = 1.0
    proximal: Decay = CODE_PROXIMAL
    samples: PositiveInt = 2
    prior_ratio: PositiveFloat = 0.85
    patience: PositiveInt | None = None


PolicyName = Literal["running", "batch", "adapt", "reestimate"]


class EstimatorSettings(Settings):
    """How architectures are scored.

    The first settings are of the short run that all estimators of training speed share; ``last_share`` is the part of
    it that ``sotl_last`` counts, ``ema_decay`` how slowly ``sotl_ema`` forgets.
    """

    steps: PositiveInt = 50
    learning_rate: Rate = 0.001
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
    agree says how far to trust the ranking. With several ``seeds`` as many supernets are trained, every estimator
    scores by each of them, and agreements are means over them. With ``halving`` the worse half is eliminated again and
    again in the course of the short run, by its losses so far alone: a ranking at a part of the cost.
    """

    architectures: NonNegativeInt = 24
    estimators: tuple[EstimatorName, ...] = ("sotl_last", "val_acc", "params", "macs")
    truth: str | None = None
    supernets: Annotated[int, Field(ge=1, le=2)] = 2
    seeds: PositiveInt = 1
    halving: bool = False


class ExecutorSettings(Settings):
    """Where items run: in this process, in processes of this machine, or on a Ray cluster.

    The address of a cluster, and what each item takes of it, are for ``ray`` alone.
    """

    kind: ExecutorName = "processes"
    address: str | None = None
    cpus_per_item: PositiveFloat = 1.0
    gpus_per_item: NonNegative = 0.0


class SearchSettings(Settings):
    """How the best architecture is looked for.

    Proposal k depends on the results of proposals 0..k - ``window``: as many can be scored at a time. ``storage`` is a
    file or the URL of a data base for the study.
    """

    sampler: SamplerName = "evolution"
    objectives: Annotated[tuple[EstimatorName, ...], Field(min_length=1)] = ("sotl_last",)
    budget: PositiveInt = 60
    window: PositiveInt = 10
    storage: str | None = None
    population: PositiveInt = 20
    tournament: PositiveInt = 5
    max_params: PositiveFloat | None = None
    max_macs: PositiveFloat | None = None
    max_latency: PositiveFloat | None = None


class RetrainSettings(OptimiserSettings):
    """How the best architectures, and random ones for comparison, are trained from scratch.

    The best is trained with ``seeds`` seeds; the ``members`` best form an ensemble. ``flag`` is the share of
    validation examples that count as uncertain, which sets the threshold of the flag on predictions. ``clip`` is the
    largest norm of a gradient of all weights together, 0 sets none; ``cutout`` stands in for that of the data.
    """

    epochs: PositiveInt = 20
    seeds: PositiveInt = 3
    members: PositiveInt = 3
    random_architectures: NonNegativeInt = 10
    flag: Fraction = 0.05
    clip: NonNegative = 0.0
    cutout: NonNegativeInt | None = None


class TruthSettings(Settings):
    """Which architectures `polyarch truth build` trains alone, by ``retrain``, and with how many seeds each.

    ``architectures`` random ones, no network twice; ``"all"`` trains the whole space.
    """

    architectures: PositiveInt | Literal["all"] = 64
    seeds: PositiveInt = 1
