"""Schedules that fit into the time."""

from __future__ import annotations

import pytest

from polyarch.errors import ConfigError
from polyarch.runs.minutes import CAUTION, fitted
from polyarch.runs.plan import PlannedStage, Timings, plan, total_seconds
from polyarch.runs.settings import RunSettings

TIMINGS = Timings(step=0.05, rank_score=2.0, search_score=1.0)
EXAMPLES = 6400


def planned(settings: RunSettings) -> list[PlannedStage]:
    return plan(settings, TIMINGS, EXAMPLES, "search")


def asked(minutes: float | None) -> RunSettings:
    return RunSettings(max_minutes=minutes, workers=2)


def test_without_a_limit_nothing_changes() -> None:
    settings = asked(None)
    assert fitted(settings, planned, asked=settings, stretch=True) == (settings, None)


@pytest.mark.parametrize("minutes", [3, 5, 8])
def test_a_plan_that_is_too_long_shrinks(minutes: float) -> None:
    assert total_seconds(planned(asked(minutes))) > 60 * minutes
    changed, reason = fitted(asked(minutes), planned, asked=asked(minutes), stretch=False)
    assert 0.5 * CAUTION * 60 * minutes < total_seconds(planned(changed)) <= CAUTION * 60 * minutes
    assert reason is not None and f"{changed.train.epochs} epochs for the supernet" in reason
    assert changed.search.budget >= 10 and changed.retrain.seeds >= 1


def test_time_that_is_left_is_used_only_if_asked() -> None:
    settings = asked(600)
    assert fitted(settings, planned, asked=settings, stretch=False) == (settings, None)
    changed, _ = fitted(settings, planned, asked=settings, stretch=True)
    assert changed.train.epochs == 200 and changed.retrain.epochs == 100
    assert changed.retrain.seeds == settings.retrain.seeds


def test_an_impossible_limit_says_what_is_possible() -> None:
    with pytest.raises(ConfigError, match=r"at most 30 seconds\. The shortest takes about"):
        fitted(asked(0.5), planned, asked=asked(0.5), stretch=False)


@pytest.mark.parametrize("minutes", [8, 600])
def test_what_the_user_gave_stays(minutes: float) -> None:
    given = RunSettings.parse({"max_minutes": minutes, "train": {"epochs": 3}, "workers": 2}, "the test")
    changed, _ = fitted(given, planned, asked=given, stretch=True)
    assert changed.train.epochs == 3
    assert changed.retrain.epochs != given.retrain.epochs
