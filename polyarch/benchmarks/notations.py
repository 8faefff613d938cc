"""Architectures as people and files write them."""

from __future__ import annotations

from polyarch.spaces import Architecture, Space, nb201_string, parse_nb201
from polyarch.spaces.darts import darts_string, parse_darts
from polyarch.spaces.macro import macro_string, parse_macro


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


def published_notation(architecture: Architecture) -> str | None:
    """The architecture in the published notation of its space, if there is one."""
    published = {"nb201": nb201_string, "darts": darts_string, "macro": macro_string}
    write = published.get(architecture.space.name.partition("[")[0])
    return None if write is None else write(architecture)
