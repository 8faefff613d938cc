"""The section ``depth`` of a run description."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat

from polyarch.methods.depth.search import Rule, Updates
from polyarch.settings import Settings


class DepthSettings(Settings):
    """How a depth is chosen, by the methods ``variational-depth`` and ``deterministic-depth``.

    ``prior`` may also be given: a weight for every depth. ``depths`` are those that ``deterministic-depth`` trains, up
    to eight evenly spread ones by default.
    """

    rule: Rule = "argmax"
    prior: Literal["geometric", "uniform"] | Annotated[tuple[PositiveFloat, ...], Field(min_length=2)] = "geometric"
    updates: Updates = "gradient"
    depths: tuple[NonNegativeInt, ...] = ()
