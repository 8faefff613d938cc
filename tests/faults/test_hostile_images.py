"""Folders with files that are no images, or claim to be larger than they are, are refused in one sentence."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyarch.data import load
from polyarch.errors import CorruptFile, DataError, PolyarchError


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, *others: bytes) -> bytes:
    """A file of a few hundred bytes that claims any size."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(others) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def image(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of four images."""
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(4):
            (tmp_path / "pets" / name / f"{number}.png").write_bytes(image("PNG"))
    return tmp_path / "pets"


HOSTILE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "text": lambda: b"not an image",
    "zeros": lambda: bytes(10_000),
    "no pixels": lambda: png(0, 0),
    "billions of pixels": lambda: png(2**31 - 1, 2**31 - 1),
    "many pixels and no data": lambda: png(20_000, 20_000),
    "a text that unpacks to 100 MB": lambda: png(8, 8, chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(100_000_000)))),
    "half a file": lambda: image("PNG")[:50],
    "half a photograph": lambda: image("JPEG")[:200],
    "a tiff with a loop": lambda: b"II*\0\x08\0\0\0\0\0\x08\0\0\0",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file(kind: str, folder: Path) -> None:
    (folder / "cat" / "9.png").write_bytes(HOSTILE[kind]())
    with pytest.raises(PolyarchError) as caught:
        load(folder, size=8)
    assert isinstance(caught.value, (CorruptFile, DataError))
    assert "\n" not in str(caught.value) and "9.png" in str(caught.value)


def test_links_in_a_circle_end(folder: Path) -> None:
    (folder / "cat" / "loop").symlink_to(folder)
    (folder / "dog" / "none.png").symlink_to(folder / "nowhere.png")
    try:
        data = load(folder, size=8)
    except PolyarchError as error:
        assert "\n" not in str(error)
    else:
        assert len(data.train) + len(data.test) >= 8
