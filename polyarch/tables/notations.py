"""Architectures as people and files write them."""

from __future__ import annotations

from polyarch.errors import InvalidInput
from polyarch.spaces import (
    Architecture,
    Space,
    nb201_string,
    parse_nb201,
    parse_wiring,
    wired_shape,
    wiring_string,
)
from polyarch.spaces.darts import darts_string, parse_darts
from polyarch.spaces.macro import macro_string, parse_macro


def parse_architecture(text: str, space: Space) -> Architecture:
    """An architecture from its key (``a|b|c``), its options separated by commas, or in a published notation.

    Published: NAS-Bench-201 strings ``|op~0|+...``, the digits of NAS-Bench-Macro, genotypes of DARTS. The bits of
    wirings, ``101-000-011``, are read, too.
    """
    text = text.strip()
    if text.startswith("|"):
        return parse_nb201(text, space)
    if text.startswith("Genotype("):
        return parse_darts(text, space)
    if space.name == "macro" and text.isdigit():
        return parse_macro(text, space)
    if set(text) <= set("01-") and _is_wired(space):
        return parse_wiring(text, space)
    separator = "|" if "|" in text or len(space.choices) == 1 else ","
    return space.architecture(text.split(separator))


def published_notation(architecture: Architecture) -> str | None:
    """The architecture in the published notation of its space, or the bits of a wiring, if there is one."""
    if _is_wired(architecture.space):
        return wiring_string(architecture)
    published = {"nb201": nb201_string, "darts": darts_string, "macro": macro_string}
    write = published.get(architecture.space.name.partition("[")[0])
    return None if write is None else write(architecture)


def _is_wired(space: Space) -> bool:
    try:
        wired_shape(space)
    except InvalidInput:
        return False
    return True
