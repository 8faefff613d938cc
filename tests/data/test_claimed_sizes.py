"""Arrays that claim to be larger than their file can hold are refused before memory is allocated."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from polyarch.data import claimed_sizes, load
from polyarch.errors import CorruptFile, DataError


def claiming(shape: tuple[int, ...], content: bytes) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue() + content


@pytest.mark.parametrize("stored", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("shape", [(10**12, 4), (17, 1)])
def test_more_than_the_file_has(tmp_path: Path, shape: tuple[int, ...], stored: int) -> None:
    path = tmp_path / "huge.npz"
    with zipfile.ZipFile(path, "w", stored) as archive:
        archive.writestr("x.npy", claiming(shape, bytes(64)))
        archive.writestr("y.npy", claiming((1,), bytes(4)))
    with pytest.raises(CorruptFile, match=r"x\.npy claims [\d,]+ bytes and has at most [\d,]+\.$"):
        load(path)


def test_an_entry_that_lies_about_its_size(tmp_path: Path) -> None:
    path = tmp_path / "lying.npz"
    claimed = 2**31
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", claiming((claimed // 4, 1), bytes(64)))
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("x.npy").file_size
    path.write_bytes(content.replace(size.to_bytes(4, "little"), claimed.to_bytes(4, "little")))
    with pytest.raises(CorruptFile, match="claims 2,147,483,776 bytes and has at most"):
        load(path)


def test_more_than_there_is_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.npz"
    np.savez_compressed(path, x=np.zeros((1000, 4), dtype=np.float32), y=np.arange(1000) % 2)
    assert len(load(path).train) == 800
    monkeypatch.setattr(claimed_sizes, "memory_limit", lambda: 10_000)
    with pytest.raises(DataError, match=r"fit into memory.*Found 0\.0 GB"):
        load(path)
