"""The section ``race`` of a run description."""

from pydantic import PositiveFloat, PositiveInt

from polyarch.runs.recipe import RecipeSettings

SEEDS, RANDOM = 2, 3
"""Trained as evidence: further seeds of the winner, and random networks that keep the limits."""


class RaceSettings(RecipeSettings):
    """How networks race, and how each of them is trained; see `RecipeSettings`.

    ``candidates`` networks, the plain one among them, train for ``first_seconds`` each. Then the better half goes on
    from where it was to twice the time, and so on, until ``finalists`` are left, which train for ``seconds``. Times
    that are not given suit the data, or the minutes that were asked for.

    On tables ``candidates`` known-good settings train for ``first_seconds``, the better half until they no longer
    improve, and relatives of the best, ``finalists`` at a time, until ``seconds`` are over on each core.
    """

    candidates: PositiveInt = 8
    finalists: PositiveInt = 2
    first_seconds: PositiveFloat | None = None
    seconds: PositiveFloat | None = None
