"""The plain way to a smaller network: every layer keeps the same share of its channels."""

from dataclasses import dataclass

import torch

from polyarch.spaces import Architecture
from polyarch.supernets.gated import KEEP, OPTIONS, GatedSupernet

REFINEMENTS = 20
"""Bisections of the width; a network changes at a few hundred widths at most."""


@dataclass(frozen=True)
class UniformWidth:
    """An architecture in which every gate keeps the channels whose position in their layer is below the width."""

    width: float
    architecture: Architecture


def uniform_width(net: GatedSupernet, macs: float, *, like: Architecture | None = None) -> UniformWidth:
    """The widest network of uniform width with at most so many multiply-accumulates, by bisection.

    >>> from torch import nn
    >>> from polyarch.supernets import gate
    >>> net = gate(nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 3)),
    ...            torch.zeros(2, 4))
    >>> found = uniform_width(net, 170 / 2)
    >>> net.notation(found.architecture), net.cost(found.architecture).macs
    ('11111100001111110000', 78.0)

    Args:
        macs: of the extracted network. If the narrowest network, of one channel per layer, has more, it is the answer.
        like: has the options of choices other than those of channels, such as the depth; the largest by default.
    """
    like = net.whole() if like is None else like
    positions = net.graph(like).positions()
    low, high = 0.0, 1.0
    found = _at(net, like, positions, low)
    if net.cost(_at(net, like, positions, high)).macs <= macs:
        return UniformWidth(high, _at(net, like, positions, high))
    for _ in range(REFINEMENTS):
        middle = (low + high) / 2
        narrowed = _at(net, like, positions, middle)
        if net.cost(narrowed).macs <= macs:
            low, found = middle, narrowed
        else:
            high = middle
    return UniformWidth(low, found)


def _at(net: GatedSupernet, like: Architecture, positions: dict[str, torch.Tensor], width: float) -> Architecture:
    """Gates that the network at this depth does not have stay open; the first channel of a layer always remains."""
    others = len(net.space.choices) - len(net.slice_space.choices)
    whole = {gate.name: torch.zeros(gate.slices) for gate in net.gates}
    kept = [((whole | positions)[gate.name] < width) | ((whole | positions)[gate.name] == 0) for gate in net.gates]
    names = [OPTIONS[KEEP if one else 1 - KEEP] for one in torch.cat(kept).tolist()]
    return net.space.architecture([*like.names[:others], *names])
