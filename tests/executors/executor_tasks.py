"""Tasks that worker processes import; run as a script, a parent whose workers never finish."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from polyarch.errors import MissingExtra, NotFiniteError, UnknownName
from polyarch.executors import Processes


@dataclass(frozen=True)
class Fragile:
    """Squares numbers; the worker is killed at the fatal one, the first ``deaths`` times.

    With ``server`` the process that started the worker is killed before it.
    """

    folder: Path
    fatal: int
    deaths: int
    server: bool = False

    def __call__(self, item: int) -> int:
        if item == self.fatal:
            died = len(list(self.folder.iterdir()))
            if died < self.deaths:
                (self.folder / str(died)).touch()
                if self.server:
                    os.kill(os.getppid(), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
        return item**2


@dataclass(frozen=True)
class Counter:
    """Counts its calls in a shared tensor; gives back who counted and what was there before."""

    calls: Tensor

    def __call__(self, item: int) -> tuple[int, float]:
        before = self.calls.item()
        self.calls.add_(1)
        time.sleep(0.05)  # leaves something for the other worker
        return os.getpid(), before


def fail(item: str) -> str:
    """Raises an error by its name."""
    errors: dict[str, Exception] = {
        "not finite": NotFiniteError("Expected a finite score. Got nan."),
        "unknown": UnknownName("colour", "gren", ["red", "green"]),
        "missing": MissingExtra("Painting", "colours"),
        "other": ZeroDivisionError("by hand"),
    }
    if item in errors:
        raise errors[item]
    return item


ERRORS: list[tuple[str, type[Exception], str]] = [
    ("not finite", NotFiniteError, "Expected a finite score. Got nan."),
    ("unknown", UnknownName, "Expected a colour out of red, green. Got 'gren'. Did you mean 'green'?"),
    ("missing", MissingExtra, "Painting needs an optional package: pip install 'polyarch[colours]'."),
    ("other", ZeroDivisionError, "by hand"),
]
"""What `fail` raises, and what it says."""


@dataclass(frozen=True)
class Sleeper:
    """Leaves a file named by its process and the item in a folder, and sleeps as many seconds as it is told."""

    folder: Path

    def __call__(self, seconds: float) -> float:
        (self.folder / f"{os.getpid()}-{seconds:g}").touch()
        time.sleep(seconds)
        return seconds


if __name__ == "__main__":
    with Processes(2).open(Sleeper(Path(sys.argv[1]))) as run:
        list(run([600.0, 600.0]))
