"""The folder of a run: where everything is written, and whether a run may start or go on there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from polyarch.errors import ConfigError
from polyarch.files import Journal
from polyarch.runs.settings import RunSettings
from polyarch.training import CheckpointStore


class Workspace:
    """Names the files of a run.

    ``log.jsonl`` is a diary: it also tells of restarts and of epochs that were done twice after a kill.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = folder / "config.toml"
        self.results = folder / "results.json"
        self.study = folder / "study.db"
        self.report = folder / "report.html"
        self.artifact = folder / "artifact"
        self.ensemble = folder / "ensemble"
        self.posterior = folder / "posterior"
        self.truth = folder / "truth.npz"
        self.checkpoints = folder / "checkpoints"

    @classmethod
    def start(cls, folder: Path, settings: RunSettings) -> Workspace:
        """A new run in a new or empty folder."""
        if (folder / "config.toml").exists():
            raise ConfigError(f"Expected a folder without a run. Found one in {folder}; --resume goes on with it.")
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"Expected a new or empty folder for the run. Found something else in {folder}.")
        workspace = cls(folder)
        settings.write(workspace.settings)
        workspace.log("started")
        return workspace

    @classmethod
    def resume(cls, folder: Path) -> tuple[Workspace, RunSettings]:
        """An earlier run and its settings."""
        workspace = cls(folder)
        if not workspace.settings.exists():
            raise ConfigError(f"Expected a run to resume in {folder}. Found no config.toml there.")
        settings = RunSettings.read(workspace.settings)
        workspace.log("resumed")
        return workspace, settings

    def store(self, name: str) -> CheckpointStore:
        """The checkpoints of one stage."""
        return CheckpointStore(self.checkpoints / name)

    def journal(self, name: str) -> Journal:
        """Finished items of one stage."""
        return Journal(self.checkpoints / f"{name}.jsonl")

    def log(self, event: str, **values: Any) -> None:
        """A line in the diary."""
        if not hasattr(self, "_log"):
            self._log = Journal(self.folder / "log.jsonl")
        self._log.append({"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "event": event, **values})
