from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from polyarch.runs.parts import Parts
from polyarch.runs.pipeline import check

from polyarch.errors import ConfigError
from polyarch.estimators import Failure, Scoring, TraceEstimator
from polyarch.methods.one_shot.elimination import eliminate, rungs_of
from polyarch.methods.one_shot.second_supernet import wants_second
from polyarch.runs.display import Quiet
from polyarch.runs.run import Context
from polyarch.runs.settings import EstimatorName, RunSettings
from polyarch.runs.workspace import Workspace

CONTENT = {
    "data": {"name": "digits", "limit": 128, "shift": 1},
    "space": {"kind": "nb201", "channels": 2, "cells": 1},
    "scores": {"steps": 4, "batch_size": 16, "policy_batches": 1},
    "rank": {"architectures": 5, "halving": True},
    "workers": 1,
}


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts.build(RunSettings.parse(CONTENT, "the test"))


@pytest.fixture
def context(parts: Parts, tmp_path: Path) -> Context:
    return Context(parts, Workspace.start(tmp_path / "run", parts.settings), Quiet())


def test_every_estimator_by_name_over_one_run(parts: Parts) -> None:
    names = get_args(EstimatorName)
    estimators = parts.estimators(names)
    assert [estimator.name for estimator in estimators] == list(names)
    assert len({id(estimator.run) for estimator in estimators if isinstance(estimator, TraceEstimator)}) == 1
    architecture = next(iter(parts.net.space.enumerate()))
    scores = Scoring(parts.net, estimators)(architecture)
    assert not isinstance(scores, Failure)
    assert [score.estimator for score in scores] == list(names)


def test_a_run_does_only_what_is_asked_for(parts: Parts) -> None:
    (speed,) = parts.estimators(("sotl",))
    assert isinstance(speed, TraceEstimator)
    assert speed.run.valid is None
    assert not speed.run.gradients


class TestElimination:
    def test_ranks_the_best_first(self, context: Context) -> None:
        found = eliminate(context)
        assert found.rungs == [1, 2, 4] == list(rungs_of(context.parts.settings))
        assert [one.steps for one in found.architectures] == [4, 4, 2, 1, 1]
        assert (found.spent, found.full_steps) == (5 + 3 + 2 * 2, 20)
        (speed,) = context.parts.estimators(("sotl",))
        space = context.parts.net.space
        for one in found.architectures[:2]:
            assert one.value == speed.score(context.parts.net, space.architecture(one.architecture))

    def test_goes_on_where_it_was_killed(self, context: Context) -> None:
        whole = eliminate(context)
        path = context.workspace.journal("halving").path
        lines = path.read_text().splitlines(keepends=True)
        assert len(lines) == 5 + 3 + 2
        path.write_text("".join(lines[:6]))
        assert eliminate(context) == whole
        assert path.read_text().splitlines(keepends=True)[:6] == lines[:6]
        assert len(path.read_text().splitlines()) == len(lines)
        finished = path.read_text()
        assert eliminate(context) == whole  # a finished one runs nothing again
        assert path.read_text() == finished

    def test_diverged_runs_have_no_value(self, parts: Parts, tmp_path: Path) -> None:
        content = {**CONTENT, "scores": {"steps": 4, "batch_size": 16, "learning_rate": 1e30}}
        wild = Parts.build(RunSettings.parse(content, "the test"))
        context = Context(wild, Workspace.start(tmp_path / "run", wild.settings), Quiet())
        found = eliminate(context)
        assert found.architectures[-1].value is None
        assert eliminate(context) == found  # read from the journal

    def test_trains_no_second_supernet(self, parts: Parts) -> None:
        assert not wants_second(parts.settings)

    def test_has_no_truth(self, context: Context) -> None:
        rank = context.parts.settings.rank.model_copy(update={"truth": "nb201"})
        settings = context.parts.settings.model_copy(update={"rank": rank})
        context.parts = Parts(**{**vars(context.parts), "settings": settings})
        with pytest.raises(ConfigError, match=r"rank\.halving or rank\.truth"):
            check(context, "rank")
