"""Which architectures of a search predict together."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from polyarch.results import SearchRecord
from polyarch.runs.parts import Parts
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet, WiredSupernet


def ensemble_members(parts: Parts, record: SearchRecord) -> list[Architecture]:
    """The best of the search first, then by the first objective, up to ``retrain.members``.

    Each has other layers than those before it: architectures that differ only in what does not reach the output, or in
    where equal layers stand, would be the same opinion twice.
    """
    (objective,) = parts.estimators((record.objectives[0],))
    sign = -1 if objective.goal == "maximise" else 1
    by_score = sorted(record.evaluated, key=lambda item: sign * item.score(objective.name))
    space = parts.net.space
    ordered = (space.architecture(item.architecture) for item in (record.best[0], *by_score))
    return distinct(parts.net, ordered, most=parts.settings.retrain.members)


def distinct(net: Supernet, architectures: Iterable[Architecture], *, most: int) -> list[Architecture]:
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
