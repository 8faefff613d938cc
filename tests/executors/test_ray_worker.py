"""What a worker of a Ray cluster does, in this process."""

from __future__ import annotations

import io
import pickle
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from polyarch.errors import ConfigError
from polyarch.executors import intra_op_threads, ray_worker
from polyarch.executors.ray_worker import Block, processor_bits, run_bunch


@dataclass
class Adding:
    """Adds items to a tensor in place; fails at a negative one."""

    total: Tensor

    def __call__(self, item: float) -> float:
        if item < 0:
            raise ZeroDivisionError("negative")
        self.total += item
        return self.total.item()


@pytest.fixture
def block(monkeypatch: pytest.MonkeyPatch) -> Iterator[Block]:
    monkeypatch.setattr(ray_worker, "_loaded", None)
    block = Block(secrets.token_hex(8))
    with intra_op_threads(1):  # a worker sets it for good
        yield block
    block.remove()


def file_of(task: object) -> bytes:
    file = io.BytesIO()
    torch.save(task, file)
    return file.getvalue()


def test_runs_a_bunch_up_to_the_first_error(block: Block) -> None:
    task = Adding(torch.zeros(()))
    returned = run_bunch(file_of(task), block, pickle.dumps([1.0, 2.0, -1.0, 4.0]))
    assert returned.results == [1.0, 3.0]
    assert returned.failed is not None and isinstance(returned.failed.error, ZeroDivisionError)
    assert "in __call__" in returned.failed.traceback
    assert returned.processor == processor_bits()


def test_what_a_task_writes_stays_out_of_the_file(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    task = file_of(Adding(torch.zeros(())))
    assert run_bunch(task, block, pickle.dumps([5.0])).results == [5.0]
    assert run_bunch(task, block, pickle.dumps([5.0])).results == [10.0]  # the same worker
    monkeypatch.setattr(ray_worker, "_loaded", None)
    assert run_bunch(task, block, pickle.dumps([5.0])).results == [5.0]  # another one, which maps the same file


def test_files_are_private_and_removed(block: Block) -> None:
    run_bunch(file_of(Adding(torch.zeros(()))), block, pickle.dumps([1.0]))
    assert stat.S_IMODE(block.folder.stat().st_mode) == 0o700
    block.remove()
    assert not block.folder.exists()


@pytest.mark.parametrize("content", [None, "of another run"])
def test_a_folder_that_is_not_shared(
    content: str | None, block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_worker, "LOOKS", 1)
    monkeypatch.setattr("polyarch.executors.ray_worker.time.sleep", lambda seconds: None)
    if content is not None:
        (tmp_path / "mark").write_text(content)
    marked = Block.named(block.token, str(tmp_path / "mark"))
    returned: Any = run_bunch(file_of(Adding(torch.zeros(()))), marked, pickle.dumps([1.0]))
    assert isinstance(returned.failed.error, ConfigError)
    assert str(returned.failed.error).startswith(f"Expected all machines of the cluster to share the folder {tmp_path}")
    (tmp_path / "mark").write_text(block.token)
    assert run_bunch(file_of(Adding(torch.zeros(()))), marked, pickle.dumps([1.0])).results == [1.0]
