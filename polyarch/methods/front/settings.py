"""The section ``front`` of a run description."""

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from polyarch.runs.recipe import RecipeSettings


class FrontSettings(RecipeSettings):
    """How one elastic network is trained for all its sizes; see `RecipeSettings`.

    Training takes ``seconds`` of one core, which suit the data or the minutes that were asked for. Every step trains
    the largest size, the smallest, and ``between`` random ones of the others. ``statistics`` is the number of training
    batches from which the batch normalisation of every size is estimated afterwards.
    """

    seconds: PositiveFloat | None = None
    between: NonNegativeInt = 1
    statistics: PositiveInt = 32
