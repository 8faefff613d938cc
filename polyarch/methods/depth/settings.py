"""The section ``depth`` of a run description."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat

from polyarch.methods.depth.search import Rule, Updates
from polyarch.methods.depth.weighting import Weighting
from polyarch.settings import Settings


class DepthSettings(Settings):
    """How a depth is chosen, by the methods ``variational-depth`` and ``deterministic-depth``.

    ``prior`` may also be given: a weight for every depth. ``posterior`` is what ``rule`` reads: the exact one for the
    final weights, or the one that was learned with them. ``q_learning_rate`` is that of q, by default that of the
    weights. ``weighting`` says which weights depths have in the mixture that predicts; see `WeightedMixture`.
    ``depths`` are those that ``deterministic-depth`` trains, up to eight evenly spread ones by default.
    """

    rule: Rule = "argmax"
    prior: Literal["geometric", "uniform"] | Annotated[tuple[PositiveFloat, ...], Field(min_length=2)] = "geometric"
    updates: Updates = "gradient"
    posterior: Literal["exact", "learned"] = "exact"
    q_learning_rate: PositiveFloat | None = None
    weighting: Weighting = "best"
    depths: tuple[NonNegativeInt, ...] = ()
