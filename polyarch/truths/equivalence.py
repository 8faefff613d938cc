"""Architectures that are the same network, so that a truth trains each network once."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch

from polyarch.errors import ConfigError
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Space
from polyarch.spaces.space import ENUMERATION_LIMIT

DRAWS = 20
"""Draws per wanted architecture from a space that is too large to enumerate."""

EquivalenceClass = tuple[Architecture, ...]
"""Architectures with the same canonical key; the first one represents the network."""


def equivalence_classes(space: Space, wanted: int | Literal["all"], *, seed: int) -> list[EquivalenceClass]:
    """All classes of the space, or as many random architectures of different classes as wanted, each alone."""
    found: dict[str, EquivalenceClass] = {}
    if wanted == "all":
        for architecture in space.enumerate():
            key = space.canonical_key(architecture)
            found[key] = (*found.get(key, ()), architecture)
        return list(found.values())
    for architecture in _shuffled(space, wanted, seed):
        found.setdefault(space.canonical_key(architecture), (architecture,))
        if len(found) == wanted:
            return list(found.values())
    raise ConfigError(
        f"Expected up to {len(found):,} architectures, the number of different networks in space {space.name!r}. "
        f"Got {wanted:,}; all takes every one."
    )


def _shuffled(space: Space, wanted: int, seed: int) -> Iterator[Architecture]:
    """All members in random order, or independent draws from a large space."""
    if space.size > ENUMERATION_LIMIT:
        yield from (space.sample(generator_at(seed, "truth", position)) for position in range(DRAWS * wanted))
        return
    sizes = [len(choice) for choice in space.choices]
    for position in torch.randperm(space.size, generator=generator_at(seed, "truth", 0)):
        indices = np.unravel_index(int(position), sizes)
        architecture = Architecture(space, tuple(int(index) for index in indices))
        if architecture in space:
            yield architecture
