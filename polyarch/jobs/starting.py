"""From what was asked for to a run that can start: data loaded, choices made, time planned, folder taken."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from polyarch.data import Dataset
from polyarch.data.sources import DATASETS
from polyarch.jobs.choosing import suggest, with_suggestions
from polyarch.jobs.context import Context
from polyarch.jobs.depth_choosing import suggest_depth
from polyarch.jobs.display import Display
from polyarch.jobs.minutes import fitted
from polyarch.jobs.overrides import resumed_settings
from polyarch.jobs.own_module import Builder
from polyarch.jobs.parts import Parts, load_data
from polyarch.jobs.pipeline import Stage, check
from polyarch.jobs.plan import PlannedStage, in_words, measure, plan, total_seconds
from polyarch.jobs.settings import RunSettings
from polyarch.jobs.workspace import Workspace
from polyarch.training import StopRequest

PATHS = ("name", "outside")
"""Settings of the data that may be paths."""


@dataclass(frozen=True)
class Beginning:
    """What a run begins with.

    Args:
        until: the last stage.
        data: instead of what the settings name.
        builder: makes the user's own network, instead of what the settings name.
    """

    out: Path
    until: Stage
    display: Display
    stop: StopRequest
    data: Dataset | None = None
    builder: Builder | None = None
    started: float = field(default_factory=time.monotonic)

    def start(self, asked: RunSettings) -> Context:
        """A new run: finds what is wrong before anything is written, and says what was chosen and how long it takes."""
        asked = _with_whole_path(asked)
        data = self.data or load_data(asked.data)
        settings, decisions = asked, [note.rstrip(".") for note in data.notes]
        one_shot = asked.method == "one-shot"
        chosen = asked.space.kind in ("auto", "module") or not one_shot
        if chosen:
            suggested, reasons = (suggest if one_shot else suggest_depth)(asked, data, self.builder)
            settings = with_suggestions(asked, suggested)
            decisions += reasons
        parts = Parts.build(settings, data=data, builder=self.builder)
        trial = self._context(parts, Workspace(self.out))
        check(trial, self.until)
        timings = measure(trial, self.until)

        def planned(settings: RunSettings) -> list[PlannedStage]:
            return plan(settings, timings, len(parts.train), self.until)

        if self.until == "search":
            settings, reason = fitted(settings, planned, asked=asked, stretch=chosen)
            decisions += [reason] if reason else []
        settings = settings.model_copy(update={"decisions": tuple(decisions)})
        for decision in decisions:
            self.display.say(f"Chosen: {decision}.")
        self._show(planned(settings), settings)
        return self._context(replace(parts, settings=settings), Workspace.start(self.out, settings))

    def resume(self, content: Mapping[str, Any] | None, overrides: Mapping[str, Any], origin: str) -> Context:
        """An earlier run, with its settings."""
        workspace, settings = Workspace.resume(self.out)
        settings = resumed_settings(settings, content, _as_stored(overrides), origin)
        parts = Parts.build(settings, data=self.data, builder=self.builder)
        context = self._context(parts, workspace)
        self._show(plan(settings, measure(context, self.until), len(parts.train), self.until), settings)
        self.display.say("What is already done is not done again.")
        return context

    def _context(self, parts: Parts, workspace: Workspace) -> Context:
        return Context(parts, workspace, self.display, self.stop, self.started)

    def _show(self, planned: list[PlannedStage], settings: RunSettings) -> None:
        table = Table("stage", "work", "about")
        for stage in planned:
            table.add_row(stage.name, stage.work, in_words(stage.seconds))
        self.display.say(table)
        workers = f"{settings.workers} worker{'s' if settings.workers > 1 else ''}"
        self.display.say(f"About {in_words(total_seconds(planned))} with {workers} from the start.")


def _with_whole_path(asked: RunSettings) -> RunSettings:
    """Paths that do not depend on the current folder, so that a run can be resumed from another one."""
    values = {key: getattr(asked.data, key) for key in PATHS}
    whole = {key: _whole(value) for key, value in values.items() if value is not None and _whole(value) != value}
    return asked.model_copy(update={"data": asked.data.model_copy(update=whole)}) if whole else asked


def _as_stored(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a run's settings have them: the same command, with --resume, goes on with the same run."""
    stored = {key: value for key, value in overrides.items() if (key, value) != ("space.kind", "auto")}
    for key in PATHS:
        if isinstance(stored.get(f"data.{key}"), str):
            stored[f"data.{key}"] = _whole(stored[f"data.{key}"])
    return stored


def _whole(name: str) -> str:
    return str(Path(name).resolve()) if name not in DATASETS and Path(name).exists() else name
