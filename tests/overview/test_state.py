"""How runs stand, from their folders."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from overview_examples import finished

from polyarch.errors import ConfigError
from polyarch.files import Journal, write_json
from polyarch.locks import LOCK_FILE, STALE_SECONDS, RunLock, this_process, worker_at
from polyarch.overview import State, runs_in, state_of
from polyarch.runs.display import Quiet
from polyarch.runs.plan import PlannedStage
from polyarch.runs.progress import ProgressRecord, RecordedDisplay
from polyarch.runs.workspace import Workspace

Command = Callable[..., subprocess.CompletedProcess[str]]

SETTINGS = 'method = "race"\n\n[data]\nname = "/somewhere/letters.csv"\n'


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.toml").write_text(SETTINGS)
    workspace = Workspace(folder)
    workspace.log("started")
    return workspace


class TestState:
    def test_a_run_goes_on_while_its_lock_is_held(self, workspace: Workspace) -> None:
        lock = RunLock(workspace.folder)
        assert state_of(workspace.folder).state is State.STOPPED
        lock.acquire()
        assert state_of(workspace.folder).state is State.RUNNING
        lock.close()
        workspace.log("finished", stage="deliver")
        assert state_of(workspace.folder).state is State.FINISHED
        workspace.log("resumed")
        assert state_of(workspace.folder).state is State.STOPPED

    def test_dead_and_silent_processes_do_not_work(self, workspace: Workspace) -> None:
        lock = workspace.folder / LOCK_FILE
        for process, age, works in (
            ({"pid": 2**22 + 1, "host": this_process()["host"]}, 0.0, False),
            ({"pid": 1, "host": "elsewhere"}, 0.0, True),
            ({"pid": 1, "host": "elsewhere"}, STALE_SECONDS + 1, False),
            ({"pid": os.getppid(), "host": this_process()["host"]}, 0.0, True),
            ({"pid": os.getppid(), "host": this_process()["host"]}, STALE_SECONDS + 1, False),
        ):
            lock.write_text(json.dumps(process))
            then = time.time() - age
            os.utime(lock, (then, then))
            assert (worker_at(workspace.folder) is not None) is works, (process, age)

    def test_looking_changes_nothing(self, workspace: Workspace) -> None:
        workspace.checkpoints.mkdir()
        half = b'{"key": "a", "value": {"valid_score": 0.9}}\n{"key": "b", "val'
        (workspace.checkpoints / "rung 0.jsonl").write_bytes(half)
        workspace.progress.write_text("{")
        workspace.results.write_text("[]")
        before = {path: path.read_bytes() for path in workspace.folder.rglob("*") if path.is_file()}
        state = state_of(workspace.folder)
        assert state.progress is None and state.results is None and [one.name for one in state.networks] == ["a"]
        assert {path: path.read_bytes() for path in workspace.folder.rglob("*") if path.is_file()} == before

    def test_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"Found no config\.toml"):
            state_of(tmp_path)


class TestProgress:
    def test_is_what_the_display_was_told(self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
        display = RecordedDisplay(Quiet(), workspace, [PlannedStage("train", "ten epochs", 60.0)], None)
        display.say("The minutes are few.")
        with display.stage("train") as report:
            report(0, 10, "")
            assert ProgressRecord.read(workspace.progress).steps[0].total == 0  # not written every time
            monkeypatch.setattr("polyarch.runs.progress.EVERY_SECONDS", 0.0)
            report(3, 10, "loss 0.5")
            (step,) = ProgressRecord.read(workspace.progress).steps
            assert (step.title, step.done, step.total, step.note, step.ended) == ("train", 3, 10, "loss 0.5", None)
            state = state_of(workspace.folder)
            assert state.step == step and state.left is None  # nobody works on it
            lock = RunLock(workspace.folder)
            lock.acquire()
            left = state_of(workspace.folder).left
            assert left is not None and 50 < left <= 60
            lock.close()
        assert ProgressRecord.read(workspace.progress).steps[0].ended is not None
        assert state_of(workspace.folder).log[-1]["words"] == "The minutes are few."

    def test_a_stage_that_fails_has_ended(self, workspace: Workspace) -> None:
        display = RecordedDisplay(Quiet(), workspace, [], 5.0)
        with pytest.raises(ZeroDivisionError), display.stage("train"):
            raise ZeroDivisionError
        assert ProgressRecord.read(workspace.progress).steps[0].ended is not None


class TestNetworks:
    def test_are_those_of_journals_as_they_were_measured_last(self, workspace: Workspace) -> None:
        first, second = workspace.journal("race rung 0"), workspace.journal("race rung 1")
        first.append(
            {"key": "a", "value": {"valid_score": 0.8, "valid_loss": 0.6, "curve": [{"seconds": 1.0, "loss": 2}]}}
        )
        first.append({"key": "b", "value": {"valid_score": 0.7, "valid_loss": 0.9}})
        second.append({"key": "a", "value": {"valid_score": 0.9, "valid_loss": 0.5, "seconds": 2.0}})
        workspace.journal("race folds").append({"folds": 5})
        for age, path in enumerate((first.path, second.path)):
            os.utime(path, (age, age))
        state = state_of(workspace.folder)
        assert [(one.name, one.stage, one.values["valid_score"]) for one in state.networks] == [
            ("b", "race rung 0", 0.7), ("a", "race rung 1", 0.9),
        ]  # fmt: skip
        assert state.best == ("a", 0.9, "validation")

    def test_are_those_that_a_search_has_scored(self, workspace: Workspace) -> None:
        workspace.log(
            "searched", key="x|y", scores=[{"estimator": "sotl", "value": -2.0}, {"estimator": "params", "value": 9}]
        )
        (one,) = state_of(workspace.folder).networks
        assert (one.name, one.stage, one.values) == ("x|y", "search", {"sotl": -2.0, "params": 9.0})
        assert state_of(workspace.folder).best is None

    def test_the_answer_is_the_best_once_there_is_one(self, workspace: Workspace) -> None:
        finished(0.97).write(workspace.results)
        best = state_of(workspace.folder).best
        assert best is not None and best[1:] == (0.97, "test")


class TestListing:
    def test_finds_runs_below_and_none_inside_of_others(self, workspace: Workspace, tmp_path: Path) -> None:
        for name in ("deep/er", "run/artifact/inner", ".hidden"):
            other = tmp_path / name
            other.mkdir(parents=True)
            (other / "config.toml").write_text(SETTINGS)
            Journal(other / "log.jsonl").append({"event": "started"})
        os.utime(workspace.folder / "log.jsonl", (1, 1))
        assert [one.folder.name for one in runs_in(tmp_path)] == ["er", "run"]
        with pytest.raises(ConfigError, match="Expected a folder with runs"):
            list(runs_in(tmp_path / "missing"))

    def test_the_command(self, workspace: Workspace, tmp_path: Path, polyarch: Command) -> None:
        write_json(
            workspace.progress,
            ProgressRecord(started=0.0, updated=9.0, steps=[{"title": "rung 0", "started": 0.0, "done": 3, "total": 8}])
            .model_dump(mode="json"),
        )  # fmt: skip
        workspace.journal("race rung 0").append({"key": "a", "value": {"valid_score": 0.75, "valid_loss": 0.6}})
        shown = polyarch("runs", str(tmp_path))
        assert shown.returncode == 0, shown.stderr
        for words in ("race", "letters.csv", "stopped", "0.7500"):
            assert words in shown.stdout
        (row,) = json.loads(polyarch("runs", str(tmp_path), "--json").stdout)
        assert (row["state"], row["done"], row["best"]["name"]) == ("stopped", 3, "a")
        refused = polyarch("runs", str(tmp_path / "missing"))
        assert refused.returncode == 2 and refused.stderr.count("\n") == 1
