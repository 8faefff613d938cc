"""Random architectures ranked with early elimination, and the estimators of one run."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path

import pytest

from polyarch.errors import ConfigError
from polyarch.estimators import Failure, Scoring, TraceEstimator
from polyarch.methods.one_shot.ranking import eliminate, rungs_of
from polyarch.methods.one_shot.second_supernet import wants_second
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace

CONTENT = {
    "data": {"name": "digits", "limit": 128, "shift": 1},
    "space": {"kind": "nb201", "channels": 2, "cells": 1},
    "scores": {"steps": 4, "batch_size": 16, "policy_batches": 1},
    "rank": {"architectures": 5, "halving": True},
    "workers": 1,
}


@pytest.fixture(scope="module")
def built() -> Run:
    return Run.build(RunSettings.parse(CONTENT, "the test"), Workspace(Path("nowhere")))


@pytest.fixture
def run(built: Run, tmp_path: Path) -> Run:
    return replace(built, workspace=Workspace.start(tmp_path / "run", built.settings))


def test_every_estimator_by_name_over_one_run(built: Run) -> None:
    names = [entry.name for entry in distribution("polyarch").entry_points.select(group="polyarch.estimators")]
    estimators = built.estimators(names)
    assert len(names) == 13 and [estimator.name for estimator in estimators] == names
    assert len({id(estimator.run) for estimator in estimators if isinstance(estimator, TraceEstimator)}) == 1
    architecture = next(iter(built.net.space.enumerate()))
    scores = Scoring(built.net, estimators)(architecture)
    assert not isinstance(scores, Failure)
    assert [score.estimator for score in scores] == names


def test_a_run_does_only_what_is_asked_for(built: Run) -> None:
    (speed,) = built.estimators(("sotl",))
    assert isinstance(speed, TraceEstimator)
    assert speed.run.valid is None
    assert not speed.run.gradients


class TestElimination:
    def test_ranks_the_best_first(self, run: Run) -> None:
        found = eliminate(run)
        assert found.rungs == [1, 2, 4] == list(rungs_of(run.settings))
        assert [one.steps for one in found.architectures] == [4, 4, 2, 1, 1]
        assert (found.spent, found.full_steps) == (5 + 3 + 2 * 2, 20)
        (speed,) = run.estimators(("sotl",))
        for one in found.architectures[:2]:
            assert one.value == speed.score(run.net, run.net.space.architecture(one.architecture))

    def test_goes_on_where_it_was_killed(self, run: Run) -> None:
        whole = eliminate(run)
        path = run.workspace.journal("halving").path
        lines = path.read_text().splitlines(keepends=True)
        assert len(lines) == 5 + 3 + 2
        path.write_text("".join(lines[:6]))
        assert eliminate(run) == whole
        assert path.read_text().splitlines(keepends=True)[:6] == lines[:6]
        assert len(path.read_text().splitlines()) == len(lines)
        finished = path.read_text()
        assert eliminate(run) == whole  # a finished one runs nothing again
        assert path.read_text() == finished

    def test_diverged_runs_have_no_value(self, tmp_path: Path) -> None:
        content = {**CONTENT, "scores": {"steps": 4, "batch_size": 16, "learning_rate": 1e30}}
        settings = RunSettings.parse(content, "the test")
        wild = Run.build(settings, Workspace.start(tmp_path / "run", settings))
        found = eliminate(wild)
        assert found.architectures[-1].value is None
        assert eliminate(wild) == found  # read from the journal

    def test_trains_no_second_supernet(self, built: Run) -> None:
        assert not wants_second(built.settings)

    def test_has_no_truth(self, built: Run) -> None:
        against = replace(built, settings=built.settings.changed({"rank": {"truth": "nb201"}}), until="rank")
        with pytest.raises(ConfigError, match=r"rank\.halving or rank\.truth"):
            against.method.check(against)
