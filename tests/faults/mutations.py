"""Valid bytes with mistakes in them: strategies that keep most of a file, so that readers come far."""

from __future__ import annotations

import struct
from collections.abc import Callable

from hypothesis import strategies as st

Edit = Callable[[bytearray], None]

NUMBERS = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**40,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
WORDS = (
    b"", b"\0", b"\n", b"\r", b",", b'"', b"'", b"{", b"}", b"[", b"]", b"-", b".", b"nan", b"NaN", b"inf", b"1e999",
    b"-1", b"null", b"true", b"9" * 30, b"0", b"[" * 2000, b'{"a":' * 2000, b"\xff\xfe", b"\xed\xa0\x80", b"<f8", b"|O",
    b">u2", b"|S9", b"True", b"descr", b"shape", b"float16", b"BF16", b"F64", b"..", b"/", b"\\ud800", b"=1+1",
)  # fmt: skip
"""What parsers stumble over."""


@st.composite
def edits(draw: st.DrawFn, size: int) -> Edit:
    """One mistake somewhere in ``size`` bytes, more often near their beginning, where headers are."""
    place = draw(st.integers(0, min(size, 200)) | st.integers(0, size))
    length = draw(st.integers(1, 8) | st.integers(1, max(1, size)))
    kind = draw(st.sampled_from(["flip", "byte", "number", "word", "delete", "cut", "repeat", "move"]))
    bit, byte = draw(st.integers(0, 7)), draw(st.integers(0, 255))
    number, width = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from("BHIQ"))
    order, word = draw(st.sampled_from("<>")), draw(st.sampled_from(WORDS))

    def edit(content: bytearray) -> None:
        at = min(place, max(len(content) - 1, 0))
        match kind:
            case "flip" if content:
                content[at] ^= 1 << bit
            case "byte" if content:
                content[at] = byte
            case "number":
                packed = struct.pack(f"{order}{width}", number % (1 << 8 * struct.calcsize(width)))
                content[at : at + len(packed)] = packed
            case "word":
                content[at : at + bit] = word
            case "delete":
                del content[at : at + length]
            case "cut":
                del content[at:]
            case "repeat":
                content[at:at] = content[at : at + min(length, 1000)]
            case "move":
                part = content[at : at + length]
                del content[at : at + length]
                content += part

    return edit


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with one to three mistakes."""
    changed = bytearray(content)
    for edit in draw(st.lists(edits(len(content)), min_size=1, max_size=3)):
        edit(changed)
    return bytes(changed)
