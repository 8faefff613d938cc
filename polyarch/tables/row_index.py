"""Finds the row of an architecture in a table."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Space


class RowIndex:
    """Finds architectures by the names of their options among different rows of ``indices``, (rows, choices)."""

    def __init__(self, space: Space, indices: ArrayLike) -> None:
        sizes = np.array([len(choice) for choice in space.choices])
        given = np.asarray(indices)
        if given.ndim != 2 or given.shape[1] != len(sizes) or given.dtype.kind not in "iu":
            raise InvalidInput(
                f"Expected whole numbers of shape (rows, {len(sizes)}) for space {space.name!r}. "
                f"Got {given.dtype} of shape {given.shape}."
            )
        if given.size and (given.min() < 0 or (given.max(axis=0) >= sizes).any()):
            raise InvalidInput(f"Expected option indices below {sizes.tolist()}. Got one outside.")
        self.space = space
        self.indices: NDArray[Any] = np.ascontiguousarray(given, dtype=np.min_scalar_type(int(sizes.max()) - 1))
        # Bytes as keys: the garbage collector would walk a hundred thousand tuples again and again.
        words = self.indices.view(f"V{self.indices.itemsize * len(sizes)}").ravel().tolist()
        self._positions: dict[bytes, int] = {word: position for position, word in enumerate(words)}
        if len(self._positions) != len(self.indices):
            rows, counts = np.unique(self.indices, axis=0, return_counts=True)
            twice = Architecture(space, tuple(rows[counts > 1][0].tolist()))
            raise InvalidInput(f"Expected every architecture once. Got {twice.key} twice.")

    def __len__(self) -> int:
        return len(self.indices)

    def find(self, architecture: Architecture) -> int | None:
        """The row of an architecture, None if it is not in the table."""
        indices = architecture.indices
        if architecture.space != self.space:
            if architecture.space.choice_names != self.space.choice_names:
                return None
            pairs = list(zip(self.space.choices, architecture.names, strict=True))
            if any(name not in choice.options for choice, name in pairs):
                return None
            indices = tuple(choice.index(name) for choice, name in pairs)
        return self._positions.get(np.array(indices, dtype=self.indices.dtype).tobytes())

    def architectures(self) -> tuple[Architecture, ...]:
        """The architectures of all rows."""
        return tuple(Architecture(self.space, tuple(row)) for row in self.indices.tolist())
