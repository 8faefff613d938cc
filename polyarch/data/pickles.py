"""Pickles of plain values and numpy arrays, read without running anything they name."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from polyarch.errors import CorruptFile, first_line


def read_plain_pickle(path: Path) -> dict[str, Any]:
    """A pickled dictionary of numbers, texts, lists and numpy arrays, also one of Python 2."""
    try:
        with path.open("rb") as file:
            content = PlainUnpickler(file, encoding="latin1").load()
    except CorruptFile as error:
        raise CorruptFile(f"Expected {path} to hold plain values only. {error}") from None
    except Exception as error:  # damaged bytes make a pickle raise anything
        raise CorruptFile(f"Expected {path} to be a pickled dictionary. Found: {first_line(error)}.") from None
    if not isinstance(content, dict):
        raise CorruptFile(f"Expected {path} to be a pickled dictionary. Found {type(content).__name__}.")
    return content


class PlainUnpickler(pickle.Unpickler):
    """Knows the four names that arrays need, and refuses every other: a pickle can name any function to call."""

    def find_class(self, module: str, name: str) -> Any:
        """What a name in the pickle stands for."""
        if (module, name) in (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")):
            return np.ndarray(0).__reduce__()[0]  # wherever this version of numpy keeps the function
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return _dtype
        if (module, name) == ("_codecs", "encode"):
            return _encode
        raise CorruptFile(f"Found {module}.{name}.")


def _dtype(text: str, align: object = False, copy: object = False) -> np.dtype[Any]:
    """Old files say 0 and 1 where numpy now wants booleans."""
    return np.dtype(text, align=bool(align), copy=bool(copy))


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise CorruptFile(f"Found bytes encoded as {encoding}.")
    return text.encode("latin1")
