"""The interface of all sources of true performance."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyarch.errors import InvalidInput, UnknownName
from polyarch.spaces import Architecture, Space


class Truth(ABC):
    """The performance of architectures trained alone: from a table, a surrogate or your own measurements.

    Architectures are found by the names of their options, so the table of a space also knows the members of its
    sub-spaces. ``name`` identifies the truth in reports, e.g. ``nb201:cifar10_test_200``.
    """

    name: str
    space: Space

    @abstractmethod
    def accuracy(self, architecture: Architecture) -> float:
        """The final test accuracy in percent, or the measure that this truth was made for."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the learning curves; none by default."""
        return ()

    def curve(self, architecture: Architecture, measure: str = "valid_accuracy") -> NDArray[np.float64]:
        """The learning curve of one architecture, one value per epoch: (epochs,)."""
        if not self.measures:
            raise InvalidInput(f"Expected a truth with learning curves for {measure!r}. Found none in {self.name}.")
        if measure not in self.measures:
            raise UnknownName(f"learning curve of {self.name}", measure, self.measures)
        return self._curve(architecture, measure)

    def _curve(self, architecture: Architecture, measure: str) -> NDArray[np.float64]:
        raise NotImplementedError  # needed only with measures

    @abstractmethod
    def __contains__(self, architecture: object) -> bool:
        """Whether the performance of this architecture is known."""

    @abstractmethod
    def __len__(self) -> int:
        """How many architectures are known."""

    @abstractmethod
    def architectures(self) -> Sequence[Architecture]:
        """The known architectures."""

    def unknown(self, architecture: Architecture) -> InvalidInput:
        """The error for an unknown architecture."""
        return InvalidInput(
            f"Expected one of the {len(self):,} architectures of {self.name} (space {self.space.name!r}). "
            f"Got {architecture.key} of space {architecture.space.name!r}."
        )
