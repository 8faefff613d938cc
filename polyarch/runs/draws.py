"""Random architectures that keep the limits, and architectures that are different networks."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from polyarch.randomness import generator_at
from polyarch.searchers import Limits
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet, WiredSupernet

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


def distinct_networks(net: Supernet, architectures: Iterable[Architecture], *, most: int) -> list[Architecture]:
    """The first of them that have other layers, or another wiring, than those before, up to ``most``."""
    found: dict[tuple[str, ...], Architecture] = {}
    for architecture in architectures:
        # All wirings have the same layers, and are different networks.
        is_wiring = isinstance(net, WiredSupernet)
        found.setdefault(architecture.names if is_wiring else _layers(net.extract(architecture)), architecture)
        if len(found) == most:
            break
    return list(found.values())


def _layers(network: nn.Module) -> tuple[str, ...]:
    """What a network is made of, in words."""
    return tuple(sorted(repr(module) for module in network.modules() if not list(module.children())))
