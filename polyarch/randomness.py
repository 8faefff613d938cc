"""Randomness by position, not by history.

Every draw derives its generator from (seed, stream name, position). A run therefore resumes exactly from the position
alone, and executors draw the same bits in whatever order they work.
"""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
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


class GlobalRandomness:
    """The state of torch's global generator on the CPU, of numpy's and of Python's, in force inside ``with`` blocks.

    Each block goes on where the one before ended, and the caller's state is restored: for code of others that draws
    from these generators now and then, such as augmentation inside a data set.
    """

    def __init__(self, seed: int) -> None:
        self._state: Any = None
        self._seed = seed

    def __enter__(self) -> None:
        self._others = self._current()
        if self._state is None:
            torch.default_generator.manual_seed(self._seed)
            np.random.seed(self._seed % 2**32)  # noqa: NPY002 - what users' data sets draw from
            random.seed(self._seed)
        else:
            self._restore(self._state)

    def __exit__(self, *error: object) -> None:
        self._state = self._current()
        self._restore(self._others)

    @staticmethod
    def _current() -> Any:
        return torch.default_generator.get_state(), np.random.get_state(), random.getstate()  # noqa: NPY002

    @staticmethod
    def _restore(state: Any) -> None:
        torch.default_generator.set_state(state[0])
        np.random.set_state(state[1])  # noqa: NPY002
        random.setstate(state[2])
