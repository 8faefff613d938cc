"""Random architectures that keep the limits."""

from __future__ import annotations

from polyarch.randomness import generator_at
from polyarch.searchers import Limits
from polyarch.spaces import Architecture

ATTEMPTS = 20
"""Draws for every architecture that is wanted."""


def distinct_draws(limits: Limits, n: int, *, seed: int, stream: str) -> list[Architecture]:
    """Up to n distinct random architectures that keep the limits; fewer only in a very small space."""
    found: dict[Architecture, None] = {}
    for position in range(ATTEMPTS * n):
        found[limits.sample(generator_at(seed, stream, position))] = None
        if len(found) == n:
            break
    return list(found)
