"""The folder of a run, and items whose results it keeps in journals."""

import math
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from polyarch.errors import ConfigError
from polyarch.executors.executor import Item, Mapper, Result
from polyarch.files import Journal, check_folder, reason_of, remove_temporaries, write_atomically
from polyarch.locks import LOCK_FILE, RunLock
from polyarch.runs.display import Report
from polyarch.runs.settings import RunSettings
from polyarch.training import CheckpointStore


def run_missing(
    items: Mapping[str, Item],
    journal: Journal,
    run: Mapper[Item, Result],
    to_record: Callable[[Result], dict[str, Any]],
    report: Report,
    *,
    wave: int | None = None,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> dict[str, dict[str, Any]]:
    """Runs the items whose key is not in the journal; returns the records by key in the order of the items.

    Args:
        wave: how many items are handed out at once; all by default.
        seconds_left: no further wave starts when less time is left than the last one took.
    """
    known = {record["key"]: record["value"] for record in journal.records if record["key"] in items}
    missing = [key for key in items if key not in known]
    report(len(known), len(items), "")
    size = wave if wave is not None and seconds_left() < math.inf else max(len(missing), 1)
    took = 0.0
    for start in range(0, len(missing), size):
        if known and seconds_left() < took:
            break
        started = time.monotonic()
        keys = missing[start : start + size]
        for index, result in run([items[key] for key in keys]):
            value = to_record(result)
            journal.append({"key": keys[index], "value": value})
            known[keys[index]] = value
            report(len(known), len(items), "")
        took = time.monotonic() - started
    return {key: known[key] for key in items if key in known}


class Workspace:
    """Names the files of a run.

    ``log.jsonl`` is a diary: it also tells of restarts and of epochs that were done twice after a kill.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = folder / "config.toml"
        self.provenance = folder / "provenance.json"
        self.results = folder / "results.json"
        self.progress = folder / "progress.json"
        self.study = folder / "study.db"
        self.study_journal = folder / "study.journal"
        self.report = folder / "report.html"
        self.artifact = folder / "artifact"
        self.ensemble = folder / "ensemble"
        self.posterior = folder / "posterior"
        self.truth = folder / "truth.npz"
        self.checkpoints = folder / "checkpoints"

    @staticmethod
    def check(folder: Path) -> None:
        """Refuses a folder in which a new run cannot begin."""
        try:
            if (folder / "config.toml").exists():
                raise ConfigError(f"Expected a folder without a run. Found one in {folder}; --resume goes on with it.")
            others = folder.exists() and (not folder.is_dir() or any(one.name != LOCK_FILE for one in folder.iterdir()))
            check_folder(folder.absolute())
        except OSError as error:
            raise ConfigError(f"Expected a folder to write the run to. Got {folder}: {reason_of(error)}.") from None
        if others:
            raise ConfigError(f"Expected a new or empty folder for the run. Found something else in {folder}.")

    @classmethod
    def start(cls, folder: Path, settings: RunSettings, lock: RunLock | None = None) -> "Workspace":
        """A new run in a new or empty folder."""
        cls.check(folder)
        if lock is not None:
            lock.acquire()
            cls.check(folder)  # another process may have begun meanwhile
        workspace = cls(folder)
        settings.write(workspace.settings)
        workspace.log("started")
        return workspace

    @classmethod
    def resume(cls, folder: Path, lock: RunLock | None = None) -> "tuple[Workspace, RunSettings]":
        """An earlier run and its settings."""
        workspace = cls(folder)
        if not workspace.settings.exists():
            raise ConfigError(f"Expected a run to resume in {folder}. Found no config.toml there.")
        settings = RunSettings.read(workspace.settings)
        if lock is not None:
            lock.acquire()
            remove_temporaries(folder)
        workspace.log("resumed")
        return workspace, settings

    def study_name(self) -> str:
        """The name of the study in a storage that runs share: no other run has it."""
        path = self.checkpoints / "study"
        if not path.exists():
            write_atomically(path, f"{self.folder.resolve().name}-{secrets.token_hex(4)}")
        return path.read_text()

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
