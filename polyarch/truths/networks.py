"""Architectures that are the same network, and random draws in which no network comes twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch

from polyarch.errors import ConfigError
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Space
from polyarch.spaces.space import ENUMERATION_LIMIT

DRAWS = 20
"""Draws for every architecture that is wanted, from a space too large to walk."""

Family = tuple[Architecture, ...]
"""Architectures with the same canonical key; the first of them stands for the network."""


def families(space: Space, wanted: int | Literal["all"], *, seed: int) -> list[Family]:
    """As many random architectures with distinct canonical keys as wanted, each alone; or all of the space by key."""
    found: dict[str, Family] = {}
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
        f"Expected up to {len(found):,} architectures, as many different networks as space {space.name!r} has. "
        f"Got {wanted:,}; all takes every one."
    )


def _shuffled(space: Space, wanted: int, seed: int) -> Iterator[Architecture]:
    """Members in random order: each once, or from a large space independent draws."""
    if space.size > ENUMERATION_LIMIT:
        yield from (space.sample(generator_at(seed, "truth", position)) for position in range(DRAWS * wanted))
        return
    sizes = [len(choice) for choice in space.choices]
    for position in torch.randperm(space.size, generator=generator_at(seed, "truth", 0)):
        indices = np.unravel_index(int(position), sizes)
        architecture = Architecture(space, tuple(int(index) for index in indices))
        if architecture in space:
            yield architecture
