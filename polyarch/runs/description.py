"""Spaces in brief: the slices of a gate, which may be thousands, are one line."""

from __future__ import annotations

import math

from polyarch.supernets import GatedSupernet, Supernet
from polyarch.supernets.gated import OPTIONS

LARGEST = 10**4000


def described_choices(net: Supernet) -> dict[str, list[str]]:
    """The options of every choice; the slices of a gate are one line."""
    if not isinstance(net, GatedSupernet):
        return {choice.name: list(choice.options) for choice in net.space.choices}
    found = {choice.name: list(choice.options) for choice in net.space.choices[: _others(net)]}
    return {**found, **{f"{gate.name}[0..{gate.slices - 1}]": list(OPTIONS) for gate in net.gates}}


def described_size(net: Supernet) -> int | str:
    """How many architectures there are; in words where they are too many for Python to write the number down."""
    size = net.space.size
    return size if size < LARGEST else f"about 10^{math.log10(size):,.0f}"


def _others(net: GatedSupernet) -> int:
    """How many choices come before those of the slices."""
    return len(net.space.choices) - len(net.slice_space.choices)
