"""Runs that are killed for real, at random moments, end with the same bits as one that never stopped."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

Outcome = Callable[[Path], dict[str, Any]]
Command = Callable[..., subprocess.CompletedProcess[str]]


class Killer:
    """Starts the run in its own process group and kills the whole group."""

    def __init__(self, folder: Path, options: list[str], environment: dict[str, str]) -> None:
        self.folder = folder
        self.options = options
        self.environment = environment

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "polyarch.cli", "search", "--out", str(self.folder), "--workers", "2"]
        started = (self.folder / "config.toml").exists()
        command += ["--resume"] if started else ["--data", "digits", *self.options]
        return subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            start_new_session=True,
        )

    def kill_when(self, ready: Callable[[Path], bool], delay: float) -> bool:
        """Kills some time after the folder looks ready; False if the run was over before."""
        process = self.start()
        deadline = time.monotonic() + 120
        while process.poll() is None and not ready(self.folder):
            assert time.monotonic() < deadline, "the run never came to the point of being killed"
            time.sleep(0.02)
        time.sleep(delay)
        finished = process.poll() is not None
        if not finished:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return not finished

    def finish(self) -> None:
        process = self.start()
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors


def generations(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoints" / "train").glob("*.ckpt"))


def in_training(folder: Path) -> bool:
    return bool(generations(folder))


def in_ranking(folder: Path) -> bool:
    return (folder / "checkpoints" / "rank.jsonl").exists()


def in_search(folder: Path) -> bool:
    return (folder / "study.db").exists()


def in_retraining(folder: Path) -> bool:
    return (folder / "checkpoints" / "retrain").exists()


@pytest.fixture(scope="module")
def untouched(
    tmp_path_factory: pytest.TempPathFactory, tiny_options: list[str], polyarch: Command, outcome: Outcome
) -> dict[str, Any]:
    """The outcome of a run that never stopped."""
    folder = tmp_path_factory.mktemp("untouched") / "run"
    finished = polyarch("search", "--data", "digits", "--out", str(folder), "--workers", "2", *tiny_options)
    assert finished.returncode == 0, finished.stderr
    return {**outcome(folder), "study": _proposals(folder)}


def _proposals(folder: Path) -> list[tuple[dict[str, str], list[float] | None]]:
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{folder / 'study.db'}")
    trials = [trial for trial in study.trials if "abandoned" not in trial.user_attrs]
    return [(trial.params, trial.values) for trial in trials]


@pytest.mark.slow
def test_three_kills(
    tmp_path: Path, tiny_options: list[str], environment: dict[str, str], untouched: dict[str, Any], outcome: Outcome
) -> None:
    """One kill while training, one while ranking, one while searching."""
    folder, generator = tmp_path / "killed", random.Random(0)
    killer = Killer(folder, tiny_options, environment)
    for ready in (in_training, in_ranking, in_search):
        assert killer.kill_when(ready, generator.uniform(0, 0.3))
    killer.finish()
    assert {**outcome(folder), "study": _proposals(folder)} == untouched


@pytest.mark.slow
def test_twenty_kills(
    tmp_path: Path, tiny_options: list[str], environment: dict[str, str], untouched: dict[str, Any], outcome: Outcome
) -> None:
    """At random moments of all stages, in as many runs as it takes."""
    generator, kills, runs = random.Random(1), 0, 0
    stages = (in_training, in_ranking, in_search, in_retraining)
    while kills < 20:
        folder = tmp_path / f"killed{runs}"
        killer = Killer(folder, tiny_options, environment)
        while kills < 20 and killer.kill_when(generator.choice(stages), generator.uniform(0, 2.5)):
            kills += 1
        killer.finish()
        assert {**outcome(folder), "study": _proposals(folder)} == untouched
        runs += 1


@pytest.mark.slow
def test_ctrl_c_and_a_damaged_checkpoint(
    tmp_path: Path, tiny_options: list[str], environment: dict[str, str], untouched: dict[str, Any], outcome: Outcome
) -> None:
    """SIGINT to the whole group, as a terminal sends it; then the newest checkpoint is cut in half."""
    folder = tmp_path / "interrupted"
    killer = Killer(folder, tiny_options, environment)
    process = killer.start()
    while len(generations(folder)) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume continues from here" in errors

    newest = generations(folder)[-1]
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    process = killer.start()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "The previous checkpoint is used" in errors
    assert {**outcome(folder), "study": _proposals(folder)} == untouched
