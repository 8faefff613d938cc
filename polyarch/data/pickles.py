"""Reads pickles of plain values and numpy arrays without calling any other function that they name."""

import pickle
import re
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


class PlainType:
    """Stands in for ``numpy.dtype``, whose state could declare the bytes of an array to be pointers to objects."""

    def __init__(self, text: str, align: object = False, copy: object = False) -> None:
        if not isinstance(text, str) or not re.fullmatch("[biuf][1248]", text):
            raise CorruptFile(f"Found values of type {text!r}.")
        self._text = text
        self._order = "="

    def __setstate__(self, state: Any) -> None:
        order = state[1]
        if order not in ("<", ">", "|", "="):
            raise CorruptFile(f"Found bytes in the order {order!r}.")
        self._order = order

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type: booleans, integers or floats of 1 to 8 bytes."""
        return np.dtype(f"{self._order}{self._text}")


class _PlainArray(np.ndarray):
    """Stands in for ``numpy.ndarray``; its values have a `PlainType`."""

    def __setstate__(self, state: Any) -> None:
        version, shape, kind, by_column, data = state
        if not isinstance(kind, PlainType):
            raise CorruptFile("Found an array without a type.")
        super().__setstate__((version, shape, kind.dtype, by_column, data))


def _reconstruct(*_: object) -> _PlainArray:
    """An empty array, which its state fills."""
    return _PlainArray((0,), np.uint8)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Python 3 pickles bytes for Python 2 as a call of this function."""
    if encoding != "latin1":
        raise CorruptFile(f"Found bytes encoded as {encoding}.")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _PlainArray,
    ("numpy", "dtype"): PlainType,
    ("_codecs", "encode"): _encode,
}
