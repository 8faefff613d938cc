"""The section ``front`` of a run description."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from polyarch.runs.recipe import RecipeSettings


class FrontSettings(RecipeSettings):
    """How one elastic network is trained for all its sizes; see `RecipeSettings`.

    Training takes ``seconds`` of one core, which suit the data or the minutes that were asked for. Every step trains
    the largest size, the smallest, and ``between`` random ones of the others. ``teacher`` is how far all others learn
    from what the largest predicts, instead of from targets. ``statistics`` is the number of training batches from which
    the batch normalisation of every size is estimated afterwards.
    """

    seconds: PositiveFloat | None = None
    between: NonNegativeInt = 1
    teacher: Annotated[float, Field(ge=0, le=1)] = 0.3
    statistics: PositiveInt = 32
