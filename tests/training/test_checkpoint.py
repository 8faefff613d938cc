from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from polyarch.errors import CorruptFile
from polyarch.training import CheckpointStore, CorruptCheckpoint
from polyarch.training.checkpoint import MAGIC


def state(number: int) -> dict[str, Any]:
    return {"number": number, "tensor": torch.full((50,), float(number)), "nested": [{"a": None, "b": True}]}


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    store = CheckpointStore(tmp_path / "checkpoints")
    for step in (5, 90, 1000):
        store.save(step, state(step))
    return store


def files(store: CheckpointStore) -> list[Path]:
    """Newest last."""
    return sorted(store.folder.glob("*.ckpt"))


def load_previous(store: CheckpointStore, reason: str) -> dict[str, Any]:
    """What is loaded when the newest file cannot be."""
    with pytest.warns(CorruptCheckpoint, match=rf"(?s){files(store)[-1].name}.*{reason}.*previous checkpoint is used"):
        loaded = store.load()
    assert loaded is not None
    return loaded


def test_newest_comes_back(store: CheckpointStore) -> None:
    loaded = store.load()
    assert loaded is not None
    assert torch.equal(loaded.pop("tensor"), torch.full((50,), 1000.0))
    assert loaded == {"number": 1000, "nested": [{"a": None, "b": True}]}


def test_two_generations_are_kept(store: CheckpointStore) -> None:
    assert [path.name for path in files(store)] == ["step-0000000090.ckpt", "step-0000001000.ckpt"]


def test_empty_folder(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path / "nowhere").load() is None
    assert CheckpointStore(tmp_path).load() is None


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: content[:-1], id="one byte short"),
        pytest.param(lambda content: content[: len(content) // 2], id="half written"),
        pytest.param(lambda content: content[:10], id="inside the magic"),
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: content[:400] + bytes([content[400] ^ 1]) + content[401:], id="one bit"),
        pytest.param(lambda content: content + b"x", id="one byte more"),
        pytest.param(lambda content: b"P" + content[1:], id="other magic"),
    ],
)
def test_damaged_newest_falls_back(store: CheckpointStore, damage: Callable[[bytes], bytes]) -> None:
    path = files(store)[-1]
    path.write_bytes(damage(path.read_bytes()))
    assert load_previous(store, "match its checksum")["number"] == 90


def test_rest_of_a_broken_write_is_not_looked_at(store: CheckpointStore) -> None:
    (store.folder / ".step-0000002000.ckpt.x1y2").write_bytes(b"half")
    loaded = store.load()
    assert loaded is not None and loaded["number"] == 1000


def test_all_damaged(store: CheckpointStore) -> None:
    for path in files(store):
        path.write_bytes(path.read_bytes()[:-5])
    with pytest.warns(CorruptCheckpoint), pytest.raises(CorruptFile, match="Found 2, all damaged; remove the folder"):
        store.load()


class Malicious:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.folder),)


def torch_bytes(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def write_with_checksum(path: Path, payload: bytes) -> None:
    path.write_bytes(MAGIC + hashlib.sha256(payload).digest() + payload)


@pytest.mark.parametrize("wrap", [lambda x: {"step": x}, lambda x: x], ids=["inside", "at the top"])
def test_code_in_a_checkpoint_is_refused_and_not_run(
    store: CheckpointStore, tmp_path: Path, wrap: Callable[[Malicious], object]
) -> None:
    marker = tmp_path / "was run"
    payload = torch_bytes(wrap(Malicious(marker)))
    write_with_checksum(files(store)[-1], payload)
    assert load_previous(store, "hold tensors and plain values")["number"] == 90
    write_with_checksum(files(store)[0], payload)
    with pytest.warns(CorruptCheckpoint), pytest.raises(CorruptFile):
        store.load()
    assert not marker.exists()
    torch.load(io.BytesIO(payload), weights_only=False)  # the payload is a live one
    assert marker.exists()


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"not what torch wrote", id="text"),
        pytest.param(torch_bytes({"a": torch.zeros(9)})[:200], id="torn archive"),
    ],
)
def test_content_that_fits_its_checksum_but_is_none_of_ours(store: CheckpointStore, payload: bytes) -> None:
    write_with_checksum(files(store)[-1], payload)
    assert load_previous(store, "hold tensors and plain values")["number"] == 90
