"""The NAS-Bench-Macro space: a chain of eight layers with three options each, and its notation.

Su et al. (2021), "Prioritized Architecture Sampling with Monto-Carlo Tree Search", arXiv:2103.11922.
"""

from polyarch.errors import InvalidInput
from polyarch.spaces.architecture import Architecture, Choice
from polyarch.spaces.chain_form import ChainForm
from polyarch.spaces.space import Space

MACRO_OPERATIONS = ("identity", "ir_3x3_t3", "ir_5x5_t6")
"""Written 0, 1 and 2 in the table; the last two are MobileNetV2 blocks with kernels 3 and 5 and expansions 3 and 6."""
MACRO_STAGES = (2, 3, 3)
"""Layers per stage; the first of each halves the resolution and doubles the channels."""
macro_canonical = ChainForm(MACRO_OPERATIONS[0], tuple(layer > 0 for length in MACRO_STAGES for layer in range(length)))
"""A key shared by chains that differ only in the positions of identities between layers of equal shape."""


def macro_space() -> Space:
    """The 3^8 = 6,561 chains of NAS-Bench-Macro; 3,969 of them are different networks."""
    choices = tuple(Choice(f"layer{layer}", MACRO_OPERATIONS) for layer in range(sum(MACRO_STAGES)))
    return Space("macro", choices, canonical=macro_canonical)


def macro_string(architecture: Architecture) -> str:
    """The table's own notation: a digit per layer, e.g. ``02112220``."""
    return "".join(map(str, architecture.indices))


def parse_macro(text: str, space: Space | None = None) -> Architecture:
    """Reads the table's notation."""
    digits = text.strip()
    if len(digits) != sum(MACRO_STAGES) or not set(digits) <= set("012"):
        raise InvalidInput(f"Expected {sum(MACRO_STAGES)} digits out of 0, 1 and 2. Got {text!r}.")
    return (space or macro_space()).architecture([MACRO_OPERATIONS[int(digit)] for digit in digits])
