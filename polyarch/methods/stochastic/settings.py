"""The section ``stochastic`` of a run description."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from polyarch.runs.sections import NonNegative
from polyarch.settings import Settings
from polyarch.strategies import DrawUnit


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
    draws: DrawUnit = "example"
    own_weights: bool = True
    edge_probability: Annotated[float, Field(ge=0, le=1)] = 0.3
    members: PositiveInt = 5
    weighting: Literal["uniform", "posterior", "stacked"] = "uniform"
    max_macs: PositiveFloat | None = None
    consistency_weight: NonNegative = 2.0
    ramp_share: Annotated[float, Field(ge=0, le=1)] = 0.3
