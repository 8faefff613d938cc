"""From what was asked for to a run that can start: data loaded, choices made, time planned, folder taken."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from polyarch.data import Dataset
from polyarch.data.sources import DATASETS
from polyarch.errors import ConfigError
from polyarch.executors import Ray
from polyarch.locks import RunLock
from polyarch.plugins import method_named
from polyarch.runs.checks import check_callbacks, check_wirings
from polyarch.runs.display import Display
from polyarch.runs.feed import load_data
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import PlannedStage, fitted, show_plan, timings_of
from polyarch.runs.progress import RecordedDisplay
from polyarch.runs.provenance import begin, go_on
from polyarch.runs.run import Run, executor_of
from polyarch.runs.settings import RunSettings, resumed_settings
from polyarch.runs.stage import stages_of
from polyarch.runs.suggestion import with_suggestions
from polyarch.runs.task import asked_kind
from polyarch.runs.workspace import Workspace
from polyarch.searchers.storage import check_storage
from polyarch.tables.lookup import whole_name
from polyarch.training import Callback, StopRequest


@dataclass(frozen=True)
class Beginning:
    """What a run begins with.

    Args:
        until: the last stage; all of them by default.
        data: used instead of what the settings name, as are ``unlabelled`` examples.
        builder: makes the user's own network, instead of the space that the settings name.
        callbacks: the user's own, called in the training of the supernet.
        finish_now: whether a resumed run trains no more and delivers the best so far, for methods that can.
        accept_changes: whether a run is resumed although its data or the user's code have changed.
    """

    out: Path
    display: Display
    stop: StopRequest
    until: str | None = None
    data: Dataset | None = None
    builder: Builder | None = None
    unlabelled: Any = None
    callbacks: Sequence[Callback] = ()
    finish_now: bool = False
    accept_changes: bool = False
    started: float = field(default_factory=time.monotonic)

    @cached_property
    def lock(self) -> RunLock:
        """Taken once the run begins or goes on; whoever is done with the run closes it."""
        return RunLock(self.out)

    def start(self, asked: RunSettings) -> Run:
        """A new run: finds what is wrong before anything is written, and says what was chosen and how long it takes."""
        run, decisions = self.prepare(asked)
        check_callbacks(run.callbacks, [stage.name for stage in stages_of(run)], run.method.name)
        run.method.check(run)
        timings = timings_of(run)

        def planned(settings: RunSettings) -> list[PlannedStage]:
            return run.method.plan(replace(run, settings=settings), timings)

        settings = run.settings
        if self.until is None and not run.method.plans_its_time:
            settings, reason = fitted(run, planned, asked=asked, stretch=_is_chosen_for(asked))
            decisions += [reason] if reason else []
        settings = decided(settings, decisions, self.display)
        plan = planned(settings)
        show_plan(self.display, plan, settings.workers)
        return self._recorded(self.begun(replace(run, settings=settings)), plan)

    def resume(self, content: Mapping[str, Any] | None, overrides: Mapping[str, Any], origin: str) -> Run:
        """An earlier run, with its settings."""
        run = self.reopen(content, overrides, origin)
        if self.finish_now and not run.method.can_finish_now:
            raise ConfigError(f"Expected a method that can finish now. Got a run of {run.method.name!r}.")
        check_callbacks(run.callbacks, [stage.name for stage in stages_of(run)], run.method.name)
        run.method.check(run)
        planned = run.method.plan(run, timings_of(run))
        show_plan(self.display, planned, run.settings.workers, resumed=True)
        return self._recorded(run, planned)

    def reopen(self, content: Mapping[str, Any] | None, overrides: Mapping[str, Any], origin: str) -> Run:
        """The same without a plan; its settings must be those that are asked for now."""
        workspace, settings = Workspace.resume(self.out, self.lock)
        settings = resumed_settings(settings, content, _as_stored(overrides), origin)
        run = self._build(settings, workspace, self.data)
        return replace(run, provenance=go_on(run, self.builder, accept_changes=self.accept_changes))

    def begun(self, run: Run) -> Run:
        """The run in its folder, with its settings and the fingerprints of its data."""
        run = replace(run, workspace=Workspace.start(self.out, run.settings, self.lock))
        return replace(run, provenance=begin(run, self.builder))

    def _recorded(self, run: Run, plan: Sequence[PlannedStage]) -> Run:
        """The run with its progress in a file."""
        recorded = RecordedDisplay(self.display, run.workspace, plan, run.settings.max_minutes)
        return replace(run, display=recorded)

    def prepare(self, asked: RunSettings) -> tuple[Run, list[str]]:
        """A run with absolute paths and a space for the data, and what was chosen, in words; nothing is written."""
        Workspace.check(self.out)
        asked = _with_workers(_with_whole_paths(asked))
        check_wirings(asked)
        data = self.data or load_data(asked.data, asked_kind(asked.task))
        decisions = [note.rstrip(".") for note in data.notes]
        settings, tried = asked, None
        if _is_chosen_for(asked):
            suggestion = method_named(asked.method).suggest(asked, data, self.builder)
            settings, tried = with_suggestions(asked, suggestion.settings), suggestion.run
            decisions += suggestion.reasons
        run = self._continued(tried, settings) or self._build(settings, Workspace(self.out), data)
        decisions += run.feed.decisions()
        settings, reason = run.method.adapted(run, asked)
        return replace(run, settings=settings), decisions + ([reason] if reason else [])

    def _continued(self, tried: Run | None, settings: RunSettings) -> Run | None:
        """The run on which suggestions were tried, if it has the examples and the network that were chosen."""
        more = self.unlabelled is not None or settings.data.unlabelled is not None
        if tried is None or more or tried.settings.space != settings.space:
            return None
        feed = tried.feed.with_settings(tried.settings.data, settings.data)
        if feed is None:
            return None
        return replace(tried, settings=settings, feed=feed, workspace=Workspace(self.out), **self._own_fields())

    def _build(self, settings: RunSettings, workspace: Workspace, data: Dataset | None) -> Run:
        others = self._own_fields()
        return Run.build(settings, workspace, data=data, builder=self.builder, unlabelled=self.unlabelled, **others)

    def _own_fields(self) -> dict[str, Any]:
        names = ("display", "stop", "until", "started", "callbacks", "finish_now")
        return {name: getattr(self, name) for name in names}


def decided(settings: RunSettings, decisions: Sequence[str], display: Display) -> RunSettings:
    """Says what was chosen, and keeps it with the settings."""
    for decision in decisions:
        display.say(f"Chosen: {decision}.")
    return settings.model_copy(update={"decisions": tuple(decisions)})


def _is_chosen_for(asked: RunSettings) -> bool:
    """Whether a schedule is chosen for the user, and with ``auto`` a space."""
    return asked.space.kind in ("auto", "module") or method_named(asked.method).always_suggests


def _with_workers(asked: RunSettings) -> RunSettings:
    """As many workers as a cluster has, unless a number was asked for."""
    executor = executor_of(asked)
    if "workers" in asked.model_fields_set or not isinstance(executor, Ray):
        return asked
    return asked.model_copy(update={"workers": executor.workers})


def _with_whole_paths(asked: RunSettings) -> RunSettings:
    """Paths that do not depend on the current folder, so that a run can be resumed from another one."""
    for key, whole in PATHS.items():
        name, _, field_name = key.partition(".")
        value = getattr(getattr(asked, name), field_name)
        if value is not None and whole(value) != value:
            asked = asked.changed({name: {field_name: whole(value)}})
    return asked


def _as_stored(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a run's settings have them: the same command, with --resume, goes on with the same run."""
    stored = {key: value for key, value in overrides.items() if (key, value) != ("space.kind", "auto")}
    for key, whole in PATHS.items():
        if isinstance(stored.get(key), str):
            stored[key] = whole(stored[key])
    return stored


def _whole(name: str) -> str:
    return str(Path(name).resolve()) if name not in DATASETS and Path(name).exists() else name


def _whole_storage(name: str) -> str:
    check_storage(name)
    return name if "://" in name else str(Path(name).resolve())


PATHS: dict[str, Callable[[str], str]] = {
    "data.name": _whole,
    "data.ood": _whole,
    "data.unlabelled": _whole,
    "data.valid": _whole,
    "data.test": _whole,
    "rank.truth": whole_name,
    "search.storage": _whole_storage,
}
"""Settings that may be paths, and what makes them whole."""
