"""Settings of the space of networks that hold several members."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from polyarch.nn.numeric_embeddings import Embedding
from polyarch.runs.space_settings import VectorSpaceSettings
from polyarch.supernets import PackedMLPSupernet

Probability = Annotated[float, Field(ge=0, lt=1)]


class PackedMLPSettings(VectorSpaceSettings):
    """Several fully connected networks in one, for tables; ``members`` share most of their weights.

    The choices are the depth, the ``embeddings`` of numbers, ``none``, ``periodic`` or ``piecewise``, and ``dropouts``,
    the probabilities to drop features. ``numbers`` is how many leading features are embedded; all by default.
    """

    network = PackedMLPSupernet
    kind: Literal["packed"] = "packed"
    members: PositiveInt = 16
    width: PositiveInt = 128
    max_depth: PositiveInt = 3
    embeddings: Annotated[tuple[Embedding, ...], Field(min_length=1)] = ("none", "periodic", "piecewise")
    dropouts: Annotated[tuple[Probability, ...], Field(min_length=1)] = (0.0, 0.1, 0.3)
    numbers: NonNegativeInt | None = None
