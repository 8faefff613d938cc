"""How a run stands, read from its folder while it goes on or later, on this machine or on another one."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from polyarch.errors import ConfigError, PolyarchError
from polyarch.files import read_journal
from polyarch.locks import worker_at
from polyarch.results import PredictorRecord, Results
from polyarch.runs.progress import ProgressRecord, StepRecord
from polyarch.runs.settings import read_toml
from polyarch.runs.workspace import Workspace


class State(StrEnum):
    """Whether a run goes on."""

    RUNNING = "running"
    STOPPED = "stopped"
    FINISHED = "finished"


@dataclass(frozen=True)
class NetworkSoFar:
    """A network that the run has measured, on validation data.

    Args:
        stage: in which it was measured last.
        values: what is known of it, such as ``valid_score``, ``valid_loss`` and ``seconds``, or scores by estimator.
        curve: points of its training loss over the seconds.
    """

    name: str
    stage: str
    values: dict[str, float]
    curve: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True)
class RunState:
    """How a run stands.

    Args:
        settings: its description, as plain values.
        results: of the stages that have ended.
        log: the diary, oldest first.
        networks: what has been measured so far, in order.
    """

    folder: Path
    state: State
    settings: dict[str, Any]
    progress: ProgressRecord | None = None
    results: Results | None = None
    log: list[dict[str, Any]] = field(default_factory=list)
    networks: list[NetworkSoFar] = field(default_factory=list)

    @property
    def method(self) -> str:
        """The name of its method."""
        return str(self.settings.get("method", ""))

    @property
    def data(self) -> str:
        """The name of its data."""
        name = str(self.settings.get("data", {}).get("name", ""))
        return Path(name).name or name

    @property
    def step(self) -> StepRecord | None:
        """What goes on now, or what went on last."""
        return self.progress.steps[-1] if self.progress is not None and self.progress.steps else None

    @property
    def elapsed(self) -> float | None:
        """Seconds since the process began that works on the run or worked on it last."""
        if self.progress is None:
            return None
        return (time.time() if self.state is State.RUNNING else self.progress.updated) - self.progress.started

    @property
    def left(self) -> float | None:
        """About how many seconds are left, by the plan or by the limit on the minutes."""
        if self.progress is None or self.elapsed is None or self.state is not State.RUNNING:
            return None
        limit = self.progress.max_minutes
        planned = sum(stage.seconds for stage in self.progress.plan)
        if not planned and limit is None:
            return None
        return max((60 * limit if limit is not None else planned) - self.elapsed, 0.0)

    @property
    def best(self) -> tuple[str, float, str] | None:
        """The best answer so far: its name, its score and on which data, which are test data only at the end."""
        answer = answer_of(self.results) if self.results is not None else None
        if answer is not None:
            return answer.name, answer.score, "test"
        scored = [one for one in self.networks if "valid_score" in one.values]
        if not scored:
            return None
        metric = self.results.task.selection if self.results is not None else None
        losses = [one for one in scored if "valid_loss" in one.values]
        if metric is not None:
            best = metric.best(scored, lambda one: one.values["valid_score"])
        else:  # until a stage has ended, nothing says which way the metric improves: losses are known to fall
            best = min(losses, key=lambda one: one.values["valid_loss"]) if losses else scored[-1]
        return best.name, best.values["valid_score"], "validation"


def answer_of(results: Results) -> PredictorRecord | None:
    """The default predictor of a run that has one."""
    return next((one for one in results.predictors if one.folder == results.default and one.folder), None)


def state_of(folder: Path) -> RunState:
    """How the run in a folder stands; nothing in it is changed."""
    workspace = Workspace(folder)
    if not workspace.settings.exists():
        raise ConfigError(f"Expected a run in {folder}. Found no {workspace.settings.name} there.")
    log = read_journal(folder / "log.jsonl")
    events = [str(record.get("event")) for record in log if record.get("event") in ("started", "resumed", "finished")]
    is_running = worker_at(folder) is not None
    state = State.RUNNING if is_running else State.FINISHED if events[-1:] == ["finished"] else State.STOPPED
    return RunState(
        folder=folder,
        state=state,
        settings=read_toml(workspace.settings),
        progress=_or_none(lambda: ProgressRecord.read(workspace.progress)) if workspace.progress.exists() else None,
        results=_or_none(lambda: Results.read(workspace.results)) if workspace.results.exists() else None,
        log=log,
        networks=list(_networks(workspace, log)),
    )


def runs_in(folder: Path) -> Iterator[RunState]:
    """The runs in a folder and the folders below it, those that worked last first."""
    if not folder.is_dir():
        raise ConfigError(f"Expected a folder with runs. Found none at {folder}.")
    found = []
    for place, folders, files in os.walk(folder):
        if "config.toml" in files and "log.jsonl" in files:
            folders.clear()
            found.append(Path(place))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
    for run in sorted(found, key=lambda one: -(one / "log.jsonl").stat().st_mtime):
        yield state_of(run)


def _or_none(read: Any) -> Any:
    """What another version wrote may be unreadable: then it is left out."""
    try:
        return read()
    except PolyarchError:
        return None


MEASURES = ("valid_score", "valid_loss", "seconds", "parameters")
"""Values of journals that mean the same for all methods."""


def _networks(workspace: Workspace, log: list[dict[str, Any]]) -> Iterator[NetworkSoFar]:
    """Networks of journals, each as it was measured last, and architectures that a search has scored."""
    found: dict[str, NetworkSoFar] = {}
    journals = sorted(workspace.checkpoints.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    for path in journals:
        for record in read_journal(path):
            key, value = record.get("key"), record.get("value")
            if isinstance(key, str) and isinstance(value, dict) and "valid_score" in value:
                values = {name: value[name] for name in MEASURES if isinstance(value.get(name), int | float)}
                found.pop(key, None)  # to the end
                found[key] = NetworkSoFar(key, path.stem, values, list(value.get("curve") or ()))
    yield from found.values()
    for record in log:
        if record.get("event") == "searched":
            scores = {str(score["estimator"]): float(score["value"]) for score in record.get("scores", ())}
            yield NetworkSoFar(str(record.get("key")), "search", scores)
