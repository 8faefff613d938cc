"""The evaluation of DARTS as settings: the network of the found cells that is trained alone, and how it is trained.

Liu, Simonyan and Yang (2019), "DARTS: Differentiable Architecture Search", arXiv:1806.09055, sections 3.2 and A.2.
"""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from polyarch.runs.sections import NonNegative, RetrainSettings
from polyarch.runs.space_settings import SpaceSettings
from polyarch.settings import Settings


class EvaluationSettings(Settings):
    """The network that is trained alone, where it is another one than the one that is searched.

    While it is trained, an operation drops what it passes on of an example with a probability that rises linearly to
    ``drop_path``, and the loss of an auxiliary classifier counts with the weight ``auxiliary``. The network that is
    delivered has neither.
    """

    layers: Annotated[int, Field(ge=3)] = 20
    channels: Annotated[int, Field(ge=2)] = 36
    drop_path: Annotated[float, Field(ge=0, lt=1)] = 0.2
    auxiliary: NonNegative = 0.4


class EvaluationRetrainSettings(RetrainSettings):
    """The section ``retrain`` where the space has an evaluation: the values of DARTS for CIFAR-10 by default."""

    epochs: PositiveInt = 600
    batch_size: PositiveInt = 96
    learning_rate: PositiveFloat = 0.025
    weight_decay: NonNegative = 3e-4
    clip: NonNegative = 5.0
    cutout: NonNegativeInt = 16


def evaluation_of(space: SpaceSettings) -> EvaluationSettings | None:
    """The evaluation of a space, if it has one."""
    return getattr(space, "evaluation", None)
