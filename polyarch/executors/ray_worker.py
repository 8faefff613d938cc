"""What a worker of a Ray cluster does: maps the task of a block into its memory and runs items."""

import fcntl
import hashlib
import os
import pickle
import platform
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

from polyarch.errors import ConfigError
from polyarch.executors.executor import one_thread
from polyarch.files import write_atomically

LOOKS = 5
"""Seconds for which a worker looks for the file that shows that it sees the folder of the run."""


@dataclass(frozen=True)
class Block:
    """One ``with`` block of an executor.

    Args:
        token: its name, which nobody can guess.
        mark: a file with the token, in a folder that all workers must see.
    """

    token: str
    mark: Path | None = None

    @classmethod
    def named(cls, token: str, mark: str | None) -> "Block":
        """From plain values."""
        return cls(token, None if mark is None else Path(mark))

    @property
    def folder(self) -> Path:
        """Where each machine keeps the task."""
        return Path(tempfile.gettempdir()) / f"polyarch-{self.token}"

    def remove(self) -> None:
        """Removes the files of this machine; workers that still map them keep them."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class Failed:
    """An error and its traceback, as text."""

    error: Exception
    traceback: str


@dataclass
class Returned:
    """What became of a bunch of items, up to the first error, and where."""

    host: str = field(default_factory=platform.node)
    processor: str = ""
    seconds: float = 0.0
    results: list[Any] = field(default_factory=list)
    failed: Failed | None = None


def run_bunch(task: Any, block: Block, items: bytes) -> Returned:
    """Runs items one after the other; ``task`` is the file of the task, as bytes."""
    returned = Returned()
    try:
        work = _task_of(task, block)
        returned.processor = processor_bits()
        started = time.perf_counter()
        for item in pickle.loads(items):  # of the driver, which runs whatever code it likes here
            returned.results.append(work(item))
        returned.seconds = time.perf_counter() - started
    except Exception as error:
        returned.failed = Failed(error, "".join(traceback.format_exception(error)))
    return returned


_loaded: tuple[str, Callable[[Any], Any]] | None = None  # of this worker process: the block and its task


def _task_of(task: Any, block: Block) -> Callable[[Any], Any]:
    global _loaded
    if _loaded is None or _loaded[0] != block.token:
        _loaded = None
        torch.set_num_threads(1)
        _check_mark(block)
        path = _task_file(task, block)
        # Full unpickling is safe here: only this user can write to the folder, and the bytes came from the driver. Ray
        # could lend the very memory of the bytes, but tensors in it can be written to, and all workers would see it.
        _loaded = block.token, torch.load(path, weights_only=False, mmap=True)
    return _loaded[1]


def _task_file(task: Any, block: Block) -> Path:
    """One file per machine, which its workers map copy-on-write."""
    block.folder.mkdir(mode=0o700, exist_ok=True)
    if block.folder.stat().st_uid != os.getuid():
        raise ConfigError(f"Expected the folder {block.folder} to be of this user. Found that of another one.")
    path = block.folder / "task.pt"
    with (block.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            write_atomically(path, bytes(task))
    return path


def _check_mark(block: Block) -> None:
    if block.mark is None:
        return
    for _ in range(LOOKS):  # network file systems take a while
        if block.mark.is_file() and block.mark.read_text() == block.token:
            return
        time.sleep(1)
    raise ConfigError(
        f"Expected all machines of the cluster to share the folder {block.mark.parent}. "
        f"{platform.node()} does not see it; choose an --out on a shared file system."
    )


@cache
def processor_bits() -> str:
    """A fingerprint of the last bits of sums, which depend on the instruction set of the processor."""
    with one_thread():
        values = torch.linspace(-1, 1, 3 * 32 * 32).sin().view(1, 3, 32, 32)
        kernels = torch.linspace(-1, 1, 16 * 3 * 3 * 3).cos().view(16, 3, 3, 3)
        found = torch.nn.functional.conv2d(values, kernels)  # (1, 16, 30, 30)
        found = found.flatten(2)[0] @ found.flatten(2)[0].T  # (16, 16)
        found = torch.cat([found.softmax(0), found.logsumexp(1, keepdim=True), found.tanh().sum(1, keepdim=True)], 1)
    return f"{torch.backends.cpu.get_cpu_capability()} {hashlib.sha256(found.numpy().tobytes()).hexdigest()[:8]}"
