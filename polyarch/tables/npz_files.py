"""npz files of named arrays, written atomically and read without unpickling."""

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
    """Writes a compressed npz file atomically."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


@contextmanager
def reading_arrays(path: Path, expected: str) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Opens an npz file; any error in the block becomes a `CorruptFile` that names it."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            yield arrays
    except Exception as error:  # damaged bytes make zip, numpy and JSON raise all kinds of errors
        raise CorruptFile(f"Expected {path} to be {expected}. Found: {first_line(error)}.") from None
