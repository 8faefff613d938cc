"""A disk that is full at some moment ends a search with one sentence; with more room it resumes to the same bits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Process
from killing import METHODS, write_points

Outcome = Callable[[Path], dict[str, Any]]
LEVELS = 8
PAGE = 4096


class Disk:
    """A file system in memory, of a size that can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def resize(self, size: int) -> None:
        mounted = ["-o", f"remount,size={size}"] if os.path.ismount(self.folder) else ["-o", f"size={size}"]
        command = ["mount", "-t", "tmpfs", *mounted, "tmpfs", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"needs a small file system: {done.stderr.strip()}")

    def remove(self) -> None:
        if os.path.ismount(self.folder):
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    yield made
    made.remove()


class Trial:
    """A one-shot search that ends by itself, with exported programs if asked for."""

    def __init__(self, folder: Path, address: Path, environment: dict[str, str], programs: str) -> None:
        settings = {**METHODS["one-shot"], "programs": programs}
        self.words = ["search", "--data", str(write_points(folder / "points.npz")), "--method", "one-shot"]
        self.words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        self.errors = folder / "errors"
        self.address, self.environment = address, environment

    def run(self, run: Path) -> tuple[int | None, str]:
        words = ["search", "--resume"] if (run / "config.toml").exists() else self.words
        words = [*words, "--out", str(run), "--workers", "1"]
        return Process(self.address, words, self.environment, self.errors).wait(), self.errors.read_text()


def used(run: Path) -> int:
    """Bytes that the files take, in whole pages."""
    return sum(-(-path.stat().st_size // PAGE) * PAGE for path in run.rglob("*") if path.is_file())


def fill_up(trial: Trial, disk: Disk, size: int, expected: dict[str, Any], outcome: Outcome) -> None:
    disk.resize(size)
    run = disk.folder / "run"
    code, said = trial.run(run)
    assert code == 2, said
    assert said.startswith("error: ") and said.count("\n") == 1 and "Traceback" not in said, said
    assert "No space left on device" in said, said
    disk.resize(2**30)
    code, said = trial.run(run)
    assert code == 0, said
    assert outcome(run) == expected


def test_a_full_disk(
    disk: Disk, tmp_path: Path, preloaded: Path, environment: dict[str, str], outcome: Outcome
) -> None:
    disk.resize(2**30)
    trial = Trial(tmp_path, preloaded, environment, "[]")
    assert trial.run(disk.folder / "whole") == (0, "")
    expected, size = outcome(disk.folder / "whole"), used(disk.folder / "whole")
    disk.remove()
    fill_up(trial, disk, size // 2, expected, outcome)


@pytest.mark.slow
def test_disks_that_are_full_at_eight_moments(
    disk: Disk, tmp_path: Path, preloaded: Path, environment: dict[str, str], outcome: Outcome
) -> None:
    disk.resize(2**30)
    trial = Trial(tmp_path, preloaded, environment, "['pt2', 'onnx']")
    assert trial.run(disk.folder / "whole") == (0, "")
    expected, size = outcome(disk.folder / "whole"), used(disk.folder / "whole")
    for level in range(1, LEVELS + 1):
        disk.remove()
        fill_up(trial, disk, size * level // (LEVELS + 1), expected, outcome)
