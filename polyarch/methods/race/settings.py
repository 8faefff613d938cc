"""The section ``race`` of a run description."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from polyarch.runs.sections import Fraction, NonNegative
from polyarch.settings import Settings


class RaceSettings(Settings):
    """How networks race, and how each of them is trained.

    ``candidates`` networks, the plain one among them, train for ``first_seconds`` each. Then the better half goes on
    from where it was to twice the time, and so on, until ``finalists`` are left, which train for ``seconds``. Seconds
    are of one core and pass with the ``clock``: real ones, those of the processor, or ``work``, the time that the steps
    would take on a machine like ours, so that every machine takes the same steps. Times that are not given suit the
    data, or the minutes that were asked for.

    On tables ``candidates`` known-good settings train for ``first_seconds``, the better half until they no longer
    improve, and relatives of the best, ``finalists`` at a time, until ``seconds`` are over on each core.

    The learning rate rises over ``warmup`` steps to its peak and falls to zero over the last ``falling`` part of the
    time. Until then training images are cropped to the part ``crop`` of their side, which makes steps faster; only
    networks of elastic layers, which take images of any size, do that. ``optimiser`` is Nesterov's SGD or AdamW;
    neither decays biases and normalisation layers.
    """

    candidates: PositiveInt = 8
    finalists: PositiveInt = 2
    first_seconds: PositiveFloat | None = None
    seconds: PositiveFloat | None = None
    clock: Literal["work", "real", "processor"] = "work"
    optimiser: Literal["sgd", "adamw"] = "sgd"
    batch_size: PositiveInt = 64
    learning_rate: PositiveFloat = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: NonNegative = 5e-4
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    warmup: PositiveInt = 50
    falling: Fraction = 0.4
    crop: Annotated[float, Field(gt=0, le=1)] = 1.0
