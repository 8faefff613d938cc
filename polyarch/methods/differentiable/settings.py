"""The section ``differentiable`` of a run description."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from polyarch.methods.differentiable.recipes import (
    Q_DECAY,
    Q_RATE,
    SOTL_STEPS,
    GradientName,
    Parametrisation,
    ProgressiveStage,
)
from polyarch.runs.sections import Decay, Rate
from polyarch.settings import Settings


class StageSettings(Settings):
    """One stage of a progressive search; see `ProgressiveStage`."""

    depth: PositiveInt | None = None
    options: PositiveInt
    skip_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    def value(self) -> ProgressiveStage:
        """What a search takes."""
        return ProgressiveStage(self.depth, self.options, self.skip_dropout)


class DifferentiableSettings(Settings):
    """How a differentiable search learns q, and how it comes to one architecture.

    ``gradient`` and ``parametrisation`` are those of the method unless they are given. ``steps`` are T of the sums of
    losses, ``repeat`` whether these steps are taken again with the new architecture. q is left alone for the first
    ``warmup_epochs``. ``weigh_edges`` gives the edges of DARTS cells weights of their own. ``stages`` make the search
    progressive; they share the epochs equally. ``perturbation`` chooses what is missed most instead of what is
    strongest; ``tune_steps`` are taken after each of its decisions, and ``perturbation_batches`` of held-out data judge
    them. ``guard`` says what happens when the search collapses. The dominant eigenvalue is measured every
    ``eigenvalue_every`` epochs, on as many examples as a batch has; 0 leaves it out. Where ``rank.truth`` knows the
    architecture of an epoch, its accuracy is followed, too.
    """

    gradient: GradientName = "first_order"
    parametrisation: Parametrisation = "softmax"
    steps: PositiveInt = SOTL_STEPS
    repeat: bool = True
    q_learning_rate: Rate = Q_RATE
    q_weight_decay: Decay = Q_DECAY
    warmup_epochs: NonNegativeInt = 0
    weigh_edges: bool = False
    stages: tuple[StageSettings, ...] = ()
    max_skips: NonNegativeInt | None = None
    discretisation: Literal["strongest", "perturbation"] = "strongest"
    perturbation_batches: PositiveInt = 4
    tune_steps: NonNegativeInt = 10
    guard: Literal["off", "warn", "stop", "roll_back"] = "warn"
    eigenvalue_every: NonNegativeInt = 0
