"""Randomness by position, not by history.

Every draw derives its generator from (seed, stream name, position). A run therefore resumes exactly from the position
alone, and executors draw the same bits in whatever order they work.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator

Position = int | str


def derive_seed(seed: int, stream: str, *position: Position) -> int:
    """A 63-bit seed: the first eight bytes of sha256(seed, stream, position), shifted right by one bit."""
    text = "\x1f".join([str(seed), stream, *(f"{type(part).__name__}:{part}" for part in position)])
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator_at(seed: int, stream: str, *position: Position) -> Generator:
    """A CPU generator for one draw, e.g. ``generator_at(0, "order", epoch)``."""
    return torch.Generator().manual_seed(derive_seed(seed, stream, *position))


def seed_global(seed: int) -> None:
    """Like ``torch.manual_seed``, which also formats a stack trace at every call for each device not in use."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


@contextmanager
def global_seed(seed: int, stream: str, *position: Position) -> Iterator[None]:
    """Seeds torch's global generator inside the block, then restores the caller's state.

    For code that takes no generator, such as the initialisation of ``torch.nn`` modules.
    """
    with torch.random.fork_rng():
        seed_global(derive_seed(seed, stream, *position))
        yield
