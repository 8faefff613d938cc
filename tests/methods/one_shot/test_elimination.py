"""Random architectures ranked with early elimination, and the estimators of one run."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from polyarch.errors import ConfigError
from polyarch.estimators import Failure, Scoring, TraceEstimator
from polyarch.methods.one_shot.further_supernets import further_count
from polyarch.methods.one_shot.ranking import eliminate, rungs_of
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace

PYPROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"
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
    registered = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"]["polyarch.estimators"]
    names, estimators = list(registered), built.estimators(list(registered.values()))
    assert len(names) == 21 and [estimator.name for estimator in estimators] == names
    assert len({id(estimator.run) for estimator in estimators if isinstance(estimator, TraceEstimator)}) == 1
    architecture = built.net.space.architecture(["nor_conv_3x3"] * 6)  # naswot needs one that lets something through
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
        assert further_count(built.settings) == 0

    def test_has_one_seed(self, built: Run) -> None:
        several = replace(built, settings=built.settings.changed({"rank": {"seeds": 3}}), until="rank")
        with pytest.raises(ConfigError, match=r"rank\.halving or several rank\.seeds. Got both, with 3 seeds"):
            several.method.check(several)

    def test_has_no_truth(self, built: Run) -> None:
        against = replace(built, settings=built.settings.changed({"rank": {"truth": "nb201"}}), until="rank")
        with pytest.raises(ConfigError, match=r"rank\.halving or rank\.truth"):
            against.method.check(against)
