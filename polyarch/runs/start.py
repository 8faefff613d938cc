"""From what was asked for to a run that can start: data loaded, choices made, time planned, folder taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from polyarch.data import Dataset
from polyarch.data.sources import DATASETS
from polyarch.runs.suggestion import suggest, with_suggestions
from polyarch.runs.run import Context
from polyarch.runs.examples import load_data
from polyarch.methods.depth.suggestion import suggest_depth
from polyarch.methods.differentiable.suggestion import suggest_differentiable
from polyarch.runs.display import Display
from polyarch.methods.posterior_guided.suggestion import suggest_guided
from polyarch.runs.minutes import fitted
from polyarch.runs.overrides import resumed_settings
from polyarch.runs.own_module import Builder
from polyarch.runs.parts import Parts
from polyarch.runs.pipeline import Stage, check
from polyarch.runs.plan import PlannedStage, measure, plan, show_plan
from polyarch.runs.settings import RunSettings
from polyarch.methods.stochastic.suggestion import suggest_stochastic
from polyarch.methods.stochastic.strategy import refuse_settings_of_stochastic
from polyarch.truths.lookup import whole_name, with_known_architectures
from polyarch.runs.workspace import Workspace
from polyarch.training import StopRequest


@dataclass(frozen=True)
class Beginning:
    """What a run begins with.

    Args:
        until: the last stage.
        data: instead of what the settings name.
        builder: makes the user's own network, instead of what the settings name.
        unlabelled: examples without labels, instead of what the settings name.
    """

    out: Path
    until: Stage
    display: Display
    stop: StopRequest
    data: Dataset | None = None
    builder: Builder | None = None
    unlabelled: Any = None
    started: float = field(default_factory=time.monotonic)

    def start(self, asked: RunSettings) -> Context:
        """A new run: finds what is wrong before anything is written, and says what was chosen and how long it takes."""
        parts, decisions = prepared(asked, self.data, self.builder, self.unlabelled)
        settings, reason = with_known_architectures(parts, asked)
        decisions += [reason] if reason else []
        trial = self._context(parts, Workspace(self.out))
        check(trial, self.until)
        timings = measure(trial, self.until)

        def planned(settings: RunSettings) -> list[PlannedStage]:
            return plan(settings, timings, len(parts.train), self.until)

        if self.until == "search":
            settings, reason = fitted(settings, planned, asked=asked, stretch=_is_chosen_for(asked))
            decisions += [reason] if reason else []
        settings = decided(settings, decisions, self.display)
        show_plan(self.display, planned(settings), settings.workers)
        return self._context(replace(parts, settings=settings), Workspace.start(self.out, settings))

    def resume(self, content: Mapping[str, Any] | None, overrides: Mapping[str, Any], origin: str) -> Context:
        """An earlier run, with its settings."""
        workspace, settings = resumed(self.out, content, overrides, origin)
        parts = Parts.build(settings, data=self.data, builder=self.builder, unlabelled=self.unlabelled)
        context = self._context(parts, workspace)
        planned = plan(settings, measure(context, self.until), len(parts.train), self.until)
        show_plan(self.display, planned, settings.workers, resumed=True)
        return context

    def _context(self, parts: Parts, workspace: Workspace) -> Context:
        return Context(parts, workspace, self.display, self.stop, self.started)


def prepared(
    asked: RunSettings, data: Dataset | None, builder: Builder | None, unlabelled: Any = None
) -> tuple[Parts, list[str]]:
    """The parts of a new run, with whole paths and a space for the data, and what was chosen, in words."""
    refuse_settings_of_stochastic(asked)
    settings = asked = _with_whole_paths(asked)
    data = data or load_data(asked.data)
    decisions = [note.rstrip(".") for note in data.notes]
    if _is_chosen_for(asked):
        suggested, reasons = _suggesting(asked)(asked, data, builder)
        settings = with_suggestions(asked, suggested)
        decisions += reasons
    return Parts.build(settings, data=data, builder=builder, unlabelled=unlabelled), decisions


def _suggesting(asked: RunSettings) -> Callable[..., tuple[dict[str, Any], list[str]]]:
    """What chooses for the method that was asked for."""
    if asked.is_differentiable:
        return suggest_differentiable
    if asked.method == "stochastic":
        return suggest_stochastic
    if asked.method == "posterior-guided":
        return suggest_guided
    return suggest if asked.method == "one-shot" else suggest_depth


def decided(settings: RunSettings, decisions: Sequence[str], display: Display) -> RunSettings:
    """Says what was chosen, and keeps it with the settings."""
    for decision in decisions:
        display.say(f"Chosen: {decision}.")
    return settings.model_copy(update={"decisions": tuple(decisions)})


def resumed(
    out: Path, content: Mapping[str, Any] | None, overrides: Mapping[str, Any], origin: str
) -> tuple[Workspace, RunSettings]:
    """An earlier run and its settings, which must be those that are asked for now."""
    workspace, settings = Workspace.resume(out)
    return workspace, resumed_settings(settings, content, _as_stored(overrides), origin)


def _is_chosen_for(asked: RunSettings) -> bool:
    """Whether a schedule is chosen for the user, and with ``auto`` a space."""
    return asked.space.kind in ("auto", "module") or asked.method != "one-shot"


def _with_whole_paths(asked: RunSettings) -> RunSettings:
    """Paths that do not depend on the current folder, so that a run can be resumed from another one."""
    for key, whole in PATHS.items():
        name, _, field_name = key.partition(".")
        section = getattr(asked, name)
        value = getattr(section, field_name)
        if value is not None and whole(value) != value:
            asked = asked.model_copy(update={name: section.model_copy(update={field_name: whole(value)})})
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


PATHS: dict[str, Callable[[str], str]] = {
    "data.name": _whole,
    "data.outside": _whole,
    "data.unlabelled": _whole,
    "rank.truth": whole_name,
}
"""Settings that may be paths, and what makes them whole."""
