"""Randomness by position, not by history.

Wherever something is drawn, its generator is derived from (seed, stream name, position). Then nothing but
the position has to be kept to go on exactly, and any executor in any order draws the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator

Position = int | str


def derive_seed(seed: int, stream: str, *position: Position) -> int:
    """A 63-bit seed from the first eight bytes of sha256(seed, stream, position)."""
    text = "\x1f".join([str(seed), stream, *(f"{type(part).__name__}:{part}" for part in position)])
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator_at(seed: int, stream: str, *position: Position) -> Generator:
    """A CPU generator for one draw, e.g. ``generator_at(0, "order", epoch)``."""
    return torch.Generator().manual_seed(derive_seed(seed, stream, *position))


def seed_global(seed: int) -> None:
    """``torch.manual_seed`` without its detour, which formats a stack trace at every call for devices not in use."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


@contextmanager
def global_seed(seed: int, stream: str, *position: Position) -> Iterator[None]:
    """Seeds torch's global generator inside the block and puts the caller's state back after it.

    For code that takes no generator: the initialisation of ``torch.nn`` modules.
    """
    with torch.random.fork_rng():
        seed_global(derive_seed(seed, stream, *position))
        yield
