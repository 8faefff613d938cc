"""The stages of a run, what comes out of them, and running them one after the other."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

import polyarch
from polyarch.errors import ConfigError, NotFiniteError
from polyarch.executors import one_thread
from polyarch.results import Contender, PredictorRecord, Record, Results, TaskRecord, TrainingRecord
from polyarch.runs.run import Run
from polyarch.runs.tracking import track_results
from polyarch.spaces.space import LISTING_LIMIT
from polyarch.supernets import GatedSupernet, Supernet
from polyarch.supernets.gated import OPTIONS
from polyarch.supernets.module import RunChoices


@dataclass
class Outcome:
    """What a method has found so far; its stages fill it in.

    Args:
        training: the course of the supernet's training, where there is one.
        record: the method's own section of ``results.json``.
        comparison: networks side by side, each with its role.
        predictors: what can predict; those with a folder are exported there.
        default: the folder of the predictor that is *the* answer.
        decisions: what was chosen along the way and why, in words.
        artifact: the exported network in numbers.
        net: the supernet after training, where it is not the one that the run began with.
        seconds: by stage, and whatever else was timed.
    """

    training: TrainingRecord = field(default_factory=lambda: TrainingRecord(strategy="none", history=[]))
    record: Record | None = None
    comparison: list[Contender] | None = None
    predictors: list[PredictorRecord] = field(default_factory=list)
    default: str | None = None
    decisions: list[str] = field(default_factory=list)
    artifact: dict[str, Any] | None = None
    net: Supernet | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Notes the seconds of a block."""
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 2)


@dataclass(frozen=True)
class Stage:
    """A named part of a run that keeps what it finishes on disk: killed, it resumes where it was."""

    name: str
    work: Callable[[Outcome], None]


def perform(run: Run) -> Results:
    """Runs the stages of the method up to and including ``run.until``; ``results.json`` is written after each."""
    outcome = Outcome()
    with one_thread():
        for stage in stages_of(run):
            try:
                with outcome.timed(stage.name):
                    stage.work(outcome)
            except NotFiniteError as error:
                raise error.at(f"in stage {stage.name!r}", note="the last good checkpoint is kept") from None
            results = results_of(run, outcome)
            results.write(run.workspace.results)
    track_results(run, results)
    run.workspace.log("finished", stage=run.until or stage.name)
    return results


def stages_of(run: Run) -> list[Stage]:
    """The stages of the method up to and including ``run.until``."""
    stages = list(run.method.stages(run))
    names = [stage.name for stage in stages]
    if run.until is None:
        return stages
    if run.until not in names:
        raise ConfigError(
            f"Expected a method with a stage {run.until!r}. Got {run.method.name!r} with {', '.join(names)}."
        )
    return stages[: names.index(run.until) + 1]


def results_of(run: Run, outcome: Outcome) -> Results:
    """The content of ``results.json``."""
    net = outcome.net or run.net
    return Results(
        polyarch=polyarch.__version__,
        torch=torch.__version__,
        method=run.method.name,
        settings=run.settings.model_dump(mode="json"),
        data=run.feed.summary(),
        task=TaskRecord.of(run.feed.task),
        space={
            "name": net.space.name,
            "kind": run.settings.space.kind,
            "size": described_size(net),
            **({"networks": net.space.network_count} if net.space.size <= LISTING_LIMIT else {}),
            "choices": described_choices(net),
            **described_nesting(net),
            "supernet_parameters": sum(parameter.numel() for parameter in net.parameters()),
        },
        training=outcome.training,
        record=outcome.record,
        comparison=outcome.comparison,
        artifact=outcome.artifact,
        predictors=outcome.predictors,
        default=outcome.default,
        decisions=[*run.settings.decisions, *outcome.decisions],
        provenance=run.provenance,
        seconds=outcome.seconds,
    )


LARGEST = 10**4000


def described_choices(net: Supernet) -> dict[str, list[str]]:
    """The options of every choice; the slices of a gate are one line."""
    if not isinstance(net, GatedSupernet):
        return {choice.name: list(choice.options) for choice in net.space.choices}
    found = {choice.name: list(choice.options) for choice in net.space.choices[: _others(net)]}
    return {**found, **{f"{gate.name}[0..{gate.slices - 1}]": list(OPTIONS) for gate in net.gates}}


def described_nesting(net: Supernet) -> dict[str, Any]:
    """Which choices of the user's own network lie inside of options, for networks that have such choices."""
    form = net.space.canonical
    return {"nesting": form.described(net.space)} if isinstance(form, RunChoices) else {}


def described_size(net: Supernet) -> int | str:
    """How many architectures there are; in words where they are too many for Python to write the number down."""
    size = net.space.size
    return size if size < LARGEST else f"about 10^{math.log10(size):,.0f}"


def _others(net: GatedSupernet) -> int:
    """How many choices come before those of the slices."""
    return len(net.space.choices) - len(net.slice_space.choices)
