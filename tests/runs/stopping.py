"""Runs that are stopped in the middle of training, as Ctrl-C would stop them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from polyarch.methods.race.training import CandidateTraining, Leg
from polyarch.results import Results
from polyarch.runs.display import Quiet, Report
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import perform
from polyarch.runs.start import Beginning
from polyarch.training import StopRequest


class Stopping(Quiet):
    """Asks for a stop after so many steps of training."""

    def __init__(self, at: int, request: StopRequest) -> None:
        self.at = at
        self.request = request

    @contextmanager
    def stage(self, title: str) -> Iterator[Report]:
        def report(done: int, total: int, note: str) -> None:
            if title == "train" and done:
                self.at -= 1
                if self.at == 0:
                    self.request.ask()

        yield report


def run_and_stop(asked: RunSettings, out: Path, at: int) -> Results:
    """Raises `Interrupted` after ``at`` steps."""
    request = StopRequest()
    return perform(Beginning(out, Stopping(at, request), request).start(asked))


def run_whole(asked: RunSettings, out: Path) -> Results:
    """Without a stop."""
    return perform(Beginning(out, Quiet(), StopRequest()).start(asked))


@contextmanager
def race_stops_at(*places: int) -> Iterator[None]:
    """Interrupts races in the block at these of their legs, counted from 1."""
    train: Callable[[CandidateTraining, Leg], dict[str, Any]] = CandidateTraining.__call__
    count = 0

    def stopping(self: CandidateTraining, leg: Leg) -> dict[str, Any]:
        nonlocal count
        count += 1
        if count in places:
            raise KeyboardInterrupt
        return train(self, leg)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CandidateTraining, "__call__", stopping)
        yield
