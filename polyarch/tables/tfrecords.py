"""Reads TFRecord files and protocol buffers without TensorFlow."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from polyarch.errors import CorruptFile

LARGEST = 1 << 24
"""A record of NAS-Bench-101 has a few hundred bytes; a larger length means damage."""

Field = int | float | bytes


def read_records(path: Path) -> Iterator[bytes]:
    """Yields the data of all records: length (uint64), its checksum, data, its checksum, all little-endian."""
    with path.open("rb") as file:
        while header := file.read(12):
            try:
                length, check = struct.unpack("<QI", header)
                if masked_crc32c(header[:8]) != check or length > LARGEST:
                    raise ValueError("a length that does not match its checksum")
                data = _exactly(file, length)
                if masked_crc32c(data) != struct.unpack("<I", _exactly(file, 4))[0]:
                    raise ValueError("a record that does not match its checksum")
            except (ValueError, struct.error) as error:
                raise CorruptFile(
                    f"Expected {path} to be whole TFRecords. Found {error} before byte {file.tell()}."
                ) from None
            yield data


def _exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise ValueError("the end of the file inside a record")
    return data


def masked_crc32c(data: bytes) -> int:
    """The checksum of TFRecords: CRC-32C, rotated right by 15 bits, plus a constant."""
    check = crc32c(data)
    return ((check >> 15 | check << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """The cyclic redundancy check with the Castagnoli polynomial, reflected: 0x82F63B78."""
    check, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        check = table[(check ^ byte) & 0xFF] ^ check >> 8
    return check ^ 0xFFFFFFFF


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = tuple(_remainder(byte) for byte in range(256))


def read_fields(message: bytes) -> Iterator[tuple[int, Field]]:
    """Yields the number and value of every field of a protocol buffer: integers, floats, and bytes."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        value: Field
        match key & 7:
            case 0:
                value, position = _varint(message, position)
            case 1:
                value, position = struct.unpack_from("<d", message, position)[0], position + 8
            case 2:
                length, position = _varint(message, position)
                value, position = message[position : position + length], position + length
                if position > len(message):
                    raise ValueError("a field that is longer than its message")
            case 5:
                value, position = struct.unpack_from("<f", message, position)[0], position + 4
            case wire:
                raise ValueError(f"a field of wire type {wire}")
        yield key >> 3, value


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """An integer in groups of seven bits, the lowest first, and the position after it."""
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise ValueError("a number without an end")
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
