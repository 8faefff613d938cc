"""Callbacks of the user's own in a search."""

from __future__ import annotations

import json
import os
import pickle
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyarch
from polyarch.errors import ConfigError, Interrupted, InvalidInput
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.workspace import Workspace
from polyarch.training import Callback, FitState, Row

STEPS_PER_EPOCH, EPOCHS = 4, 3
SMALL: dict[str, Any] = {
    "train.epochs": EPOCHS, "train.batch_size": 32, "scores.steps": 1, "scores.policy_batches": 1,
    "rank.architectures": 0, "search.budget": 2, "search.window": 2, "search.population": 2, "search.tournament": 2,
    "retrain.epochs": 2, "retrain.seeds": 1, "retrain.members": 1, "retrain.random_architectures": 0, "programs": [],
}  # fmt: skip


class Watching(Callback):
    """Counts steps, and keeps the count; asks for a stop like Ctrl-C, or fails, if told to."""

    def __init__(self, *, stop_at: int | None = None, fail_at: int | None = None) -> None:
        self.stop_at, self.fail_at = stop_at, fail_at
        self.steps, self.epochs, self.calls = 0, list[float](), list[str]()

    def on_start(self, state: FitState) -> None:
        self.calls.append(f"start at {state.step}")

    def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
        self.steps += 1
        assert metrics["loss"] > 0
        if state.step == self.stop_at:
            os.kill(os.getpid(), signal.SIGINT)
        if state.step == self.fail_at:
            raise RuntimeError("no disk space left for my pictures")

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        self.epochs.append(row["valid_accuracy"])

    def on_end(self, state: FitState) -> None:
        self.calls.append(f"end at {state.step}")

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "epochs": self.epochs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps, self.epochs = state["steps"], state["epochs"]


def search(out: Path, *callbacks: Callback, **options: Any) -> polyarch.SearchResult:
    settings = {"space": "mlp", "settings": SMALL} | options
    return polyarch.search("spirals", out=out, callbacks=callbacks, quiet=True, report=False, **settings)


def comparable(found: polyarch.SearchResult) -> dict[str, Any]:
    return {**json.loads(found.results.model_dump_json()), "seconds": {}}


def test_they_follow_the_supernet_and_survive_a_stop(tmp_path: Path) -> None:
    whole = Watching()
    expected = search(tmp_path / "whole", whole)
    steps = STEPS_PER_EPOCH * EPOCHS
    assert (whole.steps, whole.calls) == (steps, ["start at 0", f"end at {steps}"])  # nothing of retraining
    assert whole.epochs == [row["valid_accuracy"] for row in expected.results.training.history]

    stopped, resumed = Watching(stop_at=6), Watching()
    with pytest.raises(Interrupted):
        search(tmp_path / "stopped", stopped)
    assert stopped.steps == 6
    found = search(tmp_path / "stopped", resumed, resume=True, settings=None)
    assert (resumed.steps, resumed.epochs) == (whole.steps, whole.epochs)
    assert resumed.calls == ["start at 6", f"end at {steps}"]
    assert comparable(found)["comparison"] == comparable(expected)["comparison"]

    with pytest.raises(InvalidInput, match=r"the callbacks that the training began with: .*, Watching\. Got Sch"):
        search(tmp_path / "stopped", resume=True, settings=None)
    again = Watching()
    search(tmp_path / "stopped", again, resume=True, settings=None)
    assert (again.steps, again.calls) == (whole.steps, [])  # a finished training is not repeated


def test_they_stay_in_this_process(tmp_path: Path) -> None:
    settings = RunSettings.parse(with_overrides({}, {"data.name": "spirals", "space.kind": "mlp"}), "the test")
    run = Run.build(settings, Workspace(tmp_path), callbacks=[Watching()])
    assert run.callbacks and pickle.loads(pickle.dumps(run)).callbacks == ()


def test_errors_come_through_with_a_note(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no disk space left for my pictures") as raised:
        search(tmp_path / "run", Watching(fail_at=6))
    assert raised.value.__notes__ == ["Raised by Watching.on_step_end in epoch 1, step 6."]


def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(InvalidInput, match=r"callbacks of polyarch\.training\.Callback\. Got the class Watching"):
        search(out, Watching)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="Got a function"):
        search(out, search)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"trains a supernet, which callbacks follow\. Got 'deterministic-depth'"):
        search(out, Watching(), space="depth_fc", method="deterministic-depth")
    assert not out.exists()


def test_state_that_a_checkpoint_cannot_read_is_refused_when_it_is_written(tmp_path: Path) -> None:
    class Best(Callback):
        def state_dict(self) -> dict[str, Any]:
            return {"best": [np.float64(0.5)]}

    with pytest.raises(InvalidInput, match=r"plain values in the state_dict of Best\. Got a numpy\.float64\."):
        search(tmp_path / "run", Best())
