"""Reads pickles of plain values and numpy arrays without calling any other function that they name."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from polyarch.errors import CorruptFile, first_line


def read_plain_pickle(path: Path) -> dict[str, Any]:
    """Reads a pickled dictionary of numbers, texts, lists and numpy arrays, written by Python 2 or 3."""
    try:
        with path.open("rb") as file:
            content = PlainUnpickler(file, encoding="latin1").load()
    except CorruptFile as error:
        raise CorruptFile(f"Expected {path} to hold plain values only. {error}") from None
    except Exception as error:  # unpickling damaged bytes raises all kinds of errors
        raise CorruptFile(f"Expected {path} to be a pickled dictionary. Found: {first_line(error)}.") from None
    if not isinstance(content, dict):
        raise CorruptFile(f"Expected {path} to be a pickled dictionary. Found {type(content).__name__}.")
    return content


class PlainUnpickler(pickle._Unpickler):
    """Allows the four names that arrays need and refuses all others: a pickle may name any function to call.

    It is the one written in Python: the faster one keeps its memory of objects in an array, for which a number in a
    damaged file can ask for gigabytes.
    """

    def find_class(self, module: str, name: str) -> Any:
        """The object that a name in the pickle stands for."""
        if (module, name) not in _ALLOWED:
            raise CorruptFile(f"Found {module}.{name}.")
        return _ALLOWED[module, name]


def _dtype(text: str, align: object = False, copy: object = False) -> np.dtype[Any]:
    """Accepts 0 and 1 from old files where numpy now requires booleans."""
    return np.dtype(text, align=bool(align), copy=bool(copy))


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Python 3 pickles bytes for Python 2 as a call of this function."""
    if encoding != "latin1":
        raise CorruptFile(f"Found bytes encoded as {encoding}.")
    return text.encode("latin1")


_RECONSTRUCT = np.ndarray(0).__reduce__()[0]  # lives in different modules in different versions of numpy
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encode,
}
