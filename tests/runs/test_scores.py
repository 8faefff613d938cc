"""Estimators as a run makes them of its data and settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from polyarch.data import Batch, Batches
from polyarch.estimators import OngoingRun, SoTL, ValAcc, ValAccAfter, ValAccMini
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace

SIZE = 16
CONTENT: dict[str, Any] = {
    "data": {"name": "digits", "limit": 200},
    "space": {"kind": "nb201", "channels": 2, "cells": 1},
    "scores": {"steps": 3, "batch_size": SIZE, "policy": "running", "learning_rate": 0.1},
    "workers": 1,
}


def sorted_run() -> Run:
    """A run whose validation examples are sorted by class, as those of many files are."""
    run = Run.build(RunSettings.parse(CONTENT, "the test"), Workspace(Path("nowhere")))
    valid = run.feed.valid
    return replace(run, feed=replace(run.feed, valid=valid.subset(torch.argsort(valid.targets, stable=True))))


@pytest.fixture(scope="module")
def run() -> Run:
    return sorted_run()


def minibatch(run: Run) -> Batch:
    (mini,) = run.estimators(("val_acc_mini",))
    assert isinstance(mini, ValAccMini) and isinstance(mini.valid, Batches)
    assert mini.valid.augmentations == ()
    return next(mini.valid.epoch(0))


class TestValAccMini:
    def test_is_the_accuracy_on_a_shuffled_minibatch(self, run: Run) -> None:
        """Scored by hand; of the sorted examples, the first `SIZE` are all zeros."""
        assert set(run.feed.valid.targets[:SIZE].tolist()) == {0}
        inputs, targets = minibatch(run)
        assert len(targets) == SIZE and len(set(targets.tolist())) > 4
        (mini,) = run.estimators(("val_acc_mini",))
        for architecture in run.draw(4, "rank"):
            predicted = run.net.extract(architecture).eval()(inputs).argmax(1)
            assert mini.score(run.net, architecture) == (predicted == targets).sum().item() / SIZE

    def test_follows_the_seed(self, run: Run) -> None:
        other = replace(run, feed=replace(run.feed, seed=1))  # of the same examples
        assert torch.equal(minibatch(run).inputs, minibatch(sorted_run()).inputs)
        assert not torch.equal(minibatch(run).inputs, minibatch(other).inputs)


def test_val_acc_after_shares_the_short_run(run: Run) -> None:
    """It is the accuracy on all validation examples of the network whose losses SoTL sums."""
    speed, after, before = run.estimators(("sotl", "val_acc_after", "val_acc"))
    assert isinstance(speed, SoTL) and isinstance(after, ValAccAfter) and isinstance(before, ValAcc)
    assert speed.run is after.run and after.policy == before.policy == "running"
    differs = False
    for architecture in run.draw(4, "rank"):
        ongoing = OngoingRun(speed.run, run.net, architecture)
        ongoing.advance(speed.run.steps)
        network = ongoing.network.eval()
        hits = [network(batch.inputs).argmax(1) == batch.targets for batch in run.scores.valid.epoch(0)]
        assert after.score(run.net, architecture) == torch.cat(hits).sum().item() / len(run.feed.valid)
        differs |= after.score(run.net, architecture) != before.score(run.net, architecture)
    assert differs
