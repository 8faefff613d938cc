"""What a run is doing, in a file of its folder, for whoever follows it from outside."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field, ValidationError
from rich.table import Table

from polyarch.errors import CorruptFile
from polyarch.files import write_json
from polyarch.results import Record
from polyarch.results.runs import read_content
from polyarch.runs.display import Display, Report
from polyarch.runs.plan import PlannedStage
from polyarch.runs.workspace import Workspace

EVERY_SECONDS = 2.0
"""How often the file is written at most."""


class PlannedRecord(Record):
    """A stage that was planned, with its estimate in seconds."""

    name: str
    work: str
    seconds: float


class StepRecord(Record):
    """A progress bar: ``done`` of ``total``; times are seconds since 1970, ``ended`` is missing while it goes on."""

    title: str
    started: float
    ended: float | None = None
    done: int = 0
    total: int = 0
    note: str = ""


class ProgressRecord(Record):
    """What the process that works on a run, or worked on it last, has done since it was ``started``."""

    started: float
    updated: float
    max_minutes: float | None = None
    plan: list[PlannedRecord] = Field(default_factory=list)
    steps: list[StepRecord] = Field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "ProgressRecord":
        """What `RecordedDisplay` wrote."""
        try:
            return cls.model_validate(read_content(path))
        except ValidationError as error:
            raise CorruptFile(
                f"Expected {path} to tell of a run's progress. Found: {error.errors()[0]['msg']}."
            ) from None


class RecordedDisplay:
    """Shows what a run does as another display does, and keeps it in ``progress.json`` and in the run's diary."""

    def __init__(
        self, shown: Display, workspace: Workspace, plan: Sequence[PlannedStage], max_minutes: float | None
    ) -> None:
        self.shown = shown
        self.workspace = workspace
        self._written = -EVERY_SECONDS
        now = time.time()
        planned = [PlannedRecord(name=one.name, work=one.work, seconds=one.seconds) for one in plan]
        self.record = ProgressRecord(started=now, updated=now, max_minutes=max_minutes, plan=planned)
        self._write()

    def say(self, message: str | Table) -> None:
        """Lines go into the diary, too."""
        self.shown.say(message)
        if isinstance(message, str):
            self.workspace.log("said", words=message)

    @contextmanager
    def stage(self, title: str) -> Iterator[Report]:
        """A progress bar that others can see."""
        step = StepRecord(title=title, started=time.time())
        self.record.steps.append(step)
        self._write()

        def report(done: int, total: int, note: str) -> None:
            show(done, total, note)
            step.done, step.total, step.note = done, total, note
            if time.monotonic() >= self._written + EVERY_SECONDS:
                self._write()

        try:
            with self.shown.stage(title) as show:
                yield report
        finally:
            step.ended = time.time()
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        self.record.updated = time.time()
        write_json(self.workspace.progress, self.record.model_dump(mode="json"))
