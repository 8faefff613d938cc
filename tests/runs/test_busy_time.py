"""Time on a busy machine: how slow it is, and what is kept for the end of a run."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any

import pytest

from polyarch.runs import busy_time
from polyarch.runs.busy_time import seconds_before, slowdown


def run_of(minutes: float | None, left: float = 100.0) -> Any:
    return SimpleNamespace(settings=SimpleNamespace(max_minutes=minutes), seconds_left=lambda: left)


@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_slowdown_is_real_time_per_processor_time(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which every look takes a hundredth of a processor second, and so many times as much real time."""
    looks = iter(range(1000))
    now = 0.0

    def worked() -> float:
        nonlocal now
        now = 0.01 * next(looks)
        return now

    monkeypatch.setattr(time, "thread_time", worked)
    monkeypatch.setattr(time, "monotonic", lambda: factor * now)
    assert slowdown() == pytest.approx(factor)


@pytest.mark.parametrize(
    ("slower", "minutes", "expected"),
    [
        (1.0, 5.0, 100.0 - 20.0),
        (3.0, 5.0, 100.0 - 60.0),
        (30.0, 5.0, 100.0 - 150.0),  # half of the minutes at most
        (30.0, 0.5, 100.0 - 20.0),  # but not less than an idle machine needs
    ],
)
def test_the_end_is_given_longer_on_a_busy_machine(
    slower: float, minutes: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_time, "slowdown", lambda: slower)
    assert seconds_before(run_of(minutes), 20.0) == pytest.approx(expected)


def test_without_a_limit_there_is_no_hurry() -> None:
    assert seconds_before(run_of(None), 20.0) == math.inf
