"""Arrays of numbers in Matlab files of version 5.

Damaged bytes can make scipy's reader take the process down. This one reads what SVHN needs and checks every size. The
format: https://www.mathworks.com/help/pdf_doc/matlab/matfile_format.pdf
"""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyarch.data.claimed_sizes import DEFLATE
from polyarch.errors import CorruptFile, first_line

HEADER = 128
INT8, INT32, UINT32, MATRIX, COMPRESSED = 1, 5, 6, 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""How numbers are stored, by the type of their element; Matlab takes the smallest that holds them."""
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""What numbers are, by the class of their array."""


def read_matlab(path: Path) -> dict[str, NDArray[np.generic]]:
    """The real arrays of numbers in a file by name; others are left out."""
    content = path.read_bytes()
    try:
        order = {b"IM": "<", b"MI": ">"}.get(content[HEADER - 2 : HEADER])
        if order is None:
            raise ValueError("no header of version 5")
        matrices = (_unpacked(*element, order) for element in _elements(content[HEADER:], order))
        arrays = (_array(matrix, order) for matrix in matrices if matrix is not None)
        return {found[0]: found[1] for found in arrays if found is not None}
    except (ValueError, zlib.error) as error:
        raise CorruptFile(f"Expected {path} to be a readable Matlab file. Found: {first_line(error)}.") from None


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """The types and contents of data elements one after the other."""
    place = 0
    while place < len(content):
        if len(content) < place + 8:
            raise ValueError("half a tag")
        kind, size = struct.unpack_from(f"{order}II", content, place)
        start, end = place + 8, place + 8 + size
        following = end if kind == COMPRESSED else end + -end % 8
        if kind >> 16:  # up to four bytes inside the tag, whose size shares a word with the type
            kind, size = kind & 0xFFFF, kind >> 16
            start, end, following = place + 4, place + 4 + size, place + 8
        if end > min(following, len(content)):
            raise ValueError(f"an element of {size:,} bytes where {len(content) - place:,} are left")
        yield kind, content[start:end]
        place = following


def _unpacked(kind: int, content: bytes, order: str) -> bytes | None:
    """The content of a matrix; None for anything else."""
    if kind != COMPRESSED:
        return content if kind == MATRIX else None
    stream = zlib.decompressobj()
    tag = stream.decompress(content, 8)
    if len(tag) < 8:
        raise ValueError("half a tag")
    kind, size = struct.unpack(f"{order}II", tag)
    if size > DEFLATE * len(content):
        raise ValueError(f"a matrix claims {size:,} bytes out of {len(content):,} compressed ones")
    unpacked = stream.decompress(stream.unconsumed_tail, size) if size else b""
    if len(unpacked) < size or stream.decompress(stream.unconsumed_tail, 1) or not stream.eof:
        raise ValueError(f"a matrix that does not have the {size:,} bytes that it claims")
    return unpacked if kind == MATRIX else None


def _array(matrix: bytes, order: str) -> tuple[str, NDArray[np.generic]] | None:
    """The name and the numbers of a matrix; None if it does not hold real numbers alone."""
    elements = _elements(matrix, order)
    expected = zip((UINT32, INT32, INT8), ("flags", "dimensions", "a name"), strict=True)
    header = [_next_of(kind, name, elements) for kind, name in expected]
    if not header[0]:
        raise ValueError("a matrix without flags")
    flags = int.from_bytes(header[0][:4], "little" if order == "<" else "big")
    shape = [int(size) for size in np.frombuffer(header[1], f"{order}i4")]
    numbers = list(elements)
    if flags & 0xFF not in CLASSES or len(numbers) != 1:
        return None
    kind, content = numbers[0]
    if kind not in STORED or min(shape, default=-1) < 0:
        raise ValueError(f"numbers of type {kind} and of the shape {shape}")
    stored = np.frombuffer(content, f"{order}{STORED[kind]}")
    if stored.size != math.prod(shape):
        raise ValueError(f"{stored.size:,} numbers for the shape {shape}")
    return header[2].decode("latin-1"), stored.astype(CLASSES[flags & 0xFF]).reshape(shape, order="F")


def _next_of(kind: int, name: str, elements: Iterator[tuple[int, bytes]]) -> bytes:
    found, content = next(elements, (0, b""))
    if found != kind:
        raise ValueError(f"a matrix without {name}")
    return content
