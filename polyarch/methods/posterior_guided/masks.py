"""Architectures of networks with gates in brief: a text of bits for every gate."""

from polyarch.spaces import Architecture
from polyarch.supernets import GatedSupernet


def masks(net: GatedSupernet, architecture: Architecture) -> dict[str, str]:
    """The channels that every gate keeps as ``1`` and those it drops as ``0``, and any other choice by name."""
    others = len(net.space.choices) - len(net.slice_space.choices)  # they come before the slices
    first = dict(zip(net.space.choice_names[:others], architecture.names[:others], strict=True))
    bits = net.by_gate(net.slices(architecture))
    return {**first, **{name: "".join("1" if kept else "0" for kept in row.tolist()) for name, row in bits.items()}}
