"""A batch of the data as a network reads it, for everything that has to try a network or to know its shapes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from polyarch.data.named_inputs import Inputs, InputShape, shape_of
from polyarch.data.preprocessing import Preprocessing

EXAMPLES = 2
"""How many examples a network is tried on."""


@dataclass(frozen=True)
class NetworkExample:
    """Preprocessed examples, and what a user's function may ask for beside their shape.

    Args:
        inputs: (B, ...), the first examples of the training data.
        sizes: ``vocabulary`` of tokens and ``categories`` of a table, see `Preprocessing.sizes`.
    """

    inputs: Inputs
    sizes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, raw: Inputs, preprocessing: Preprocessing) -> "NetworkExample":
        """Raw examples as a network reads them."""
        return cls(preprocessing(raw), preprocessing.sizes)

    @property
    def shape(self) -> InputShape:
        """The shape of one example, or of each of its inputs."""
        return shape_of(self.inputs)
