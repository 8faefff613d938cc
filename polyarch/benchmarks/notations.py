"""Architectures as people and files write them."""

from __future__ import annotations

from polyarch.spaces import Architecture, Space, parse_nb201
from polyarch.spaces.darts import parse_darts
from polyarch.spaces.macro import parse_macro


def parse_architecture(text: str, space: Space) -> Architecture:
    """An architecture from its key (``a|b|c``), its options separated by commas, or in a published notation.

    Published: NAS-Bench-201 strings ``|op~0|+...``, the digits of NAS-Bench-Macro, genotypes of DARTS.
    """
    text = text.strip()
    if text.startswith("|"):
        return parse_nb201(text, space)
    if text.startswith("Genotype("):
        return parse_darts(text, space)
    if space.name == "macro" and text.isdigit():
        return parse_macro(text, space)
    separator = "|" if "|" in text or len(space.choices) == 1 else ","
    return space.architecture(text.split(separator))
