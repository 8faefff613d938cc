"""Schedules that fit into the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from polyarch.data import Dataset, TensorData
from polyarch.errors import ConfigError
from polyarch.methods.one_shot.method import ScoreTimings
from polyarch.runs.plan import CAUTION, PlannedStage, fitted, total_seconds
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace

TIMINGS = ScoreTimings(step=0.05, rank=2.0, search=1.0)
EXAMPLES = 6400

Planned = Callable[[RunSettings], list[PlannedStage]]


def asked(minutes: float | None, **content: Any) -> tuple[Run, Planned]:
    """A run of many examples, and what it plans under other settings."""
    times = {} if minutes is None else {"max_minutes": minutes}
    settings = RunSettings.parse(
        {"method": "one-shot", "space": {"channels": 2}, "workers": 2, **times, **content}, "the test"
    )
    few, many = (TensorData(torch.zeros(n, 1, 8, 8), torch.arange(n) % 2, 2) for n in (8, EXAMPLES))
    run = Run.build(settings, Workspace(Path()), data=Dataset("zeros", few, few, ("a", "b")))
    run = replace(run, feed=replace(run.feed, train=many))
    return run, lambda changed: run.method.plan(replace(run, settings=changed), TIMINGS)


def test_without_a_limit_nothing_changes() -> None:
    run, planned = asked(None)
    assert fitted(run, planned, asked=run.settings, stretch=True) == (run.settings, None)


@pytest.mark.parametrize("minutes", [3, 5, 8])
def test_a_plan_that_is_too_long_shrinks(minutes: float) -> None:
    run, planned = asked(minutes)
    assert total_seconds(planned(run.settings)) > 60 * minutes
    changed, reason = fitted(run, planned, asked=run.settings, stretch=False)
    assert 0.5 * CAUTION * 60 * minutes < total_seconds(planned(changed)) <= CAUTION * 60 * minutes
    assert reason is not None and f"{changed.train.epochs} epochs for the supernet" in reason
    assert changed.search.budget >= 10 and changed.retrain.seeds >= 1


def test_time_that_is_left_is_used_only_if_asked() -> None:
    run, planned = asked(600)
    assert fitted(run, planned, asked=run.settings, stretch=False) == (run.settings, None)
    changed, _ = fitted(run, planned, asked=run.settings, stretch=True)
    assert changed.train.epochs == 200 and changed.retrain.epochs == 100
    assert changed.retrain.seeds == run.settings.retrain.seeds


def test_an_impossible_limit_says_what_is_possible() -> None:
    run, planned = asked(0.5)
    with pytest.raises(ConfigError, match=r"at most 30 seconds\. The shortest takes about"):
        fitted(run, planned, asked=run.settings, stretch=False)


@pytest.mark.parametrize("minutes", [8, 600])
def test_what_the_user_gave_stays(minutes: float) -> None:
    run, planned = asked(minutes, train={"epochs": 3})
    changed, _ = fitted(run, planned, asked=run.settings, stretch=True)
    assert changed.train.epochs == 3
    assert changed.retrain.epochs != run.settings.retrain.epochs
