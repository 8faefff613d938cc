"""Spaces and architectures of networks with gates in brief: slices, which may be thousands, gate by gate."""

from __future__ import annotations

import math

from polyarch.spaces import Architecture
from polyarch.supernets import GatedSupernet, Supernet
from polyarch.supernets.gated import OPTIONS

LARGEST = 10**4000


def brief_choices(net: Supernet) -> dict[str, list[str]]:
    """The options of every choice; the slices of a gate are one line."""
    if not isinstance(net, GatedSupernet):
        return {choice.name: list(choice.options) for choice in net.space.choices}
    found = {choice.name: list(choice.options) for choice in net.space.choices[: _others(net)]}
    return {**found, **{f"{gate.name}[0..{gate.slices - 1}]": list(OPTIONS) for gate in net.gates}}


def brief_size(net: Supernet) -> int | str:
    """How many architectures there are; in words where they are too many for Python to write the number down."""
    size = net.space.size
    return size if size < LARGEST else f"about 10^{math.log10(size):,.0f}"


def masks(net: GatedSupernet, architecture: Architecture) -> dict[str, str]:
    """The channels that every gate keeps as ``1`` and those it drops as ``0``, and any other choice by name."""
    names, options = net.space.choice_names, architecture.names
    first = dict(zip(names[: _others(net)], options[: _others(net)], strict=True))
    bits = net.by_gate(net.slices(architecture))
    return {**first, **{name: "".join("1" if kept else "0" for kept in row.tolist()) for name, row in bits.items()}}


def _others(net: GatedSupernet) -> int:
    """How many choices come before those of the slices."""
    return len(net.space.choices) - len(net.slice_space.choices)
