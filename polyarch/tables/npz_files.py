"""Files of named arrays, written whole and read without running anything."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.errors import CorruptFile, first_line
from polyarch.files import write_atomically


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes one compressed npz atomically."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


@contextmanager
def reading_arrays(path: Path, expected: str) -> Iterator[Mapping[str, NDArray[Any]]]:
    """The arrays of an npz; whatever goes wrong with them becomes one sentence about the file."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            yield arrays
    except Exception as error:  # damaged bytes make zip, numpy and JSON raise anything
        raise CorruptFile(f"Expected {path} to be {expected}. Found: {first_line(error)}.") from None
