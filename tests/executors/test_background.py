"""A task in a process of its own."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from polyarch.errors import NotFiniteError, WorkerDied
from polyarch.executors import in_background


@dataclass(frozen=True)
class Whoami:
    folder: Path

    def __call__(self) -> int:
        (self.folder / "started").touch()
        return os.getpid()


@dataclass(frozen=True)
class Endless(Whoami):
    def __call__(self) -> int:
        (self.folder / "pid").write_text(str(super().__call__()))
        time.sleep(60)
        return 0


@dataclass(frozen=True)
class Fatal:
    def __call__(self) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0


@dataclass(frozen=True)
class Failing:
    def __call__(self) -> int:
        raise NotFiniteError("Expected a number. Got NaN.")


def test_runs_in_another_process(tmp_path: Path) -> None:
    with in_background(Whoami(tmp_path)) as wait:
        assert wait() != os.getpid()
    assert (tmp_path / "started").exists()


def test_ends_with_the_block(tmp_path: Path) -> None:
    """Also when nobody waited for it."""
    with pytest.raises(ZeroDivisionError), in_background(Endless(tmp_path)):
        deadline = time.monotonic() + 60
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        raise ZeroDivisionError
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_errors_reach_who_waits() -> None:
    with in_background(Failing()) as wait, pytest.raises(NotFiniteError, match="Got NaN"):
        wait()
    with in_background(Fatal()) as wait, pytest.raises(WorkerDied, match="Its process died"):
        wait()
