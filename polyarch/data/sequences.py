"""Sequences of tokens of different lengths, padded to one length, with a mask that marks the real tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyarch.data.named_inputs import NamedInputs
from polyarch.errors import DataError

PADDING = 0
"""The index that fills up short sequences; the mask tells it from a token 0."""

TOKENS, MASK = "tokens", "mask"
"""The names of the two inputs that sequences without a name become."""


def is_ragged(values: Any) -> bool:
    """Whether these are sequences, one per example, that are not all of one length."""
    if not isinstance(values, list | tuple) or not all(isinstance(one, list | tuple | np.ndarray) for one in values):
        return False
    return len({len(one) for one in values}) > 1


def padded(sequences: Sequence[Any], origin: str, *, length: int | None = None) -> tuple[Tensor, Tensor]:
    """Sequences of tokens -> tokens (N, L) int64, filled up with `PADDING`, and mask (N, L), True for real tokens.

    >>> padded([[5, 2, 7], [4]], "the example")
    (tensor([[5, 2, 7],
            [4, 0, 0]]), tensor([[ True,  True,  True],
            [ True, False, False]]))

    Args:
        origin: how error messages refer to the sequences.
        length: L; by default that of the longest sequence.
    """
    lengths = torch.tensor([len(one) for one in sequences])
    longest = max(int(lengths.max()) if len(lengths) else 0, 1)
    length = length or longest
    if longest > length:
        row = int((lengths > length).nonzero()[0])
        raise DataError(f"Expected up to {length} tokens in {origin}. Found {int(lengths[row])} in example {row}.")
    tokens = torch.full((len(sequences), length), PADDING, dtype=torch.int64)
    for row, one in enumerate(sequences):
        array = np.asarray(one)
        if array.size and (array.ndim != 1 or array.dtype.kind not in "iu"):
            raise DataError(f"Expected integers as tokens in {origin}. Found something else in example {row}.")
        tokens[row, : len(array)] = torch.from_numpy(array.astype(np.int64))
    return check_tokens(tokens, origin), torch.arange(length) < lengths[:, None]


def with_masks(parts: Mapping[str, Tensor | Sequence[Any]], origin: str) -> tuple[NamedInputs, dict[str, str]]:
    """Named inputs, of which sequences are padded: ``title`` becomes ``title`` and ``title_mask``, tokens get ``mask``.

    Returns:
        The inputs, and padded input -> the name of its mask.
    """
    tensors: dict[str, Tensor] = {}
    masks: dict[str, str] = {}
    for name, part in parts.items():
        if isinstance(part, Tensor):
            tensors[name] = part
            continue
        masks[name] = MASK if name == TOKENS else f"{name}_{MASK}"
        if masks[name] in parts:
            raise DataError(f"Expected no input {masks[name]!r} beside sequences of different lengths. Got one.")
        tensors[name], tensors[masks[name]] = padded(part, f"{name!r} of {origin}")
    return NamedInputs(tensors), masks


def check_tokens(tokens: Tensor, origin: str) -> Tensor:
    """The same tokens; refuses negative ones, which are no indices."""
    negative = (tokens < 0).flatten(1).any(1)
    if negative.any():
        row = int(negative.nonzero()[0])
        raise DataError(
            f"Expected tokens, integers of 0 or more, in {origin}. Found {int(tokens[row].min())} in example {row}; "
            "numbers to normalise are floats."
        )
    return tokens
