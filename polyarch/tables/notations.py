"""Text notations of architectures."""

from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Space, nb201_string, parse_nb201, parse_wiring, wired_shape, wiring_string
from polyarch.spaces.darts import darts_string, parse_darts
from polyarch.spaces.macro import macro_string, parse_macro


def parse_architecture(text: str, space: Space) -> Architecture:
    """Parses a key (``a|b|c``), options separated by commas, or a published notation.

    Published notations are NAS-Bench-201 strings ``|op~0|+...``, the digits of NAS-Bench-Macro and the genotypes of
    DARTS; wirings are written as bits, ``101-000-011``.
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
    """The published notation of an architecture or the bits of a wiring; None if its space has neither."""
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
