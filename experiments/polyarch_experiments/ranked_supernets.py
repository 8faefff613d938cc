"""What experiments on rankings share: a supernet trained by settings, and architectures scored with its weights."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.data import Dataset, load, stratified_split
from polyarch.errors import ConfigError, NotFiniteError
from polyarch.estimators import Estimator, Trace, TraceEstimator
from polyarch.executors import Serial
from polyarch.files import Journal
from polyarch.randomness import generator_at
from polyarch.runs.display import Quiet
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import perform
from polyarch.runs.workspace import Workspace, run_missing
from polyarch.spaces import Architecture, Space
from polyarch.supernets import Supernet
from polyarch.tables import NASBench201
from polyarch_experiments.distinct_cells import TRUTHS, truth_on

BLOCKS = 20
"""The losses of a short run are kept as means over so many blocks of steps, which keeps the files small."""

TIMED = 4
"""Architectures of which single estimators are timed."""


def recipe(
    *,
    size: int | None,
    cells: int,
    epochs: int,
    limit: int | None = None,
    steps: int = 100,
    rate: float = 0.1,
    adapting: int = 20,
) -> dict[str, Any]:
    """The settings of a run on CIFAR-10 that experiments on NAS-Bench-201 share.

    Args:
        size: of the images; None leaves them as they are, with the augmentation of the papers.
        rate: of the short run.
        adapting: batches by which normalisation statistics adapt to an architecture.
    """
    data: dict[str, Any] = {"name": "cifar10", "split": "nb201"}
    data |= {"size": size} if size else {"shift": 4, "flip": True}
    data |= {"limit": limit} if limit else {}
    return {
        "data": data,
        "space": {"kind": "nb201", "channels": 16, "cells": cells},
        "train": {"epochs": epochs, "batch_size": 64, "learning_rate": 0.1, "weight_decay": 5e-4, "warmup_epochs": 0.5},
        "scores": {
            "steps": steps,
            "learning_rate": rate,
            "batch_size": 64,
            "policy": "adapt",
            "policy_batches": adapting,
        },
    }


def train_supernet(content: Mapping[str, Any], seed: int, folder: Path) -> Run:
    """A run whose supernet is trained by these settings, or was by an earlier run in the folder."""
    run = run_of({**content, "seed": seed}, folder)
    perform(run)
    return run


def run_of(content: Mapping[str, Any], folder: Path) -> Run:
    """A run with these settings up to the trained supernet, new in the folder or one to resume there."""
    trial = trial_of(content)
    return replace(trial, workspace=_workspace(folder, trial.settings), until="train")


def trial_of(content: Mapping[str, Any]) -> Run:
    """A run with these settings that writes nothing; data that the last one had are not read again."""
    settings = RunSettings.parse({**content, "workers": 1}, "the experiment")
    return Run.build(
        settings, Workspace(Path()), data=_data(settings.data.name, settings.data.size, settings.data.valid)
    )


@lru_cache(maxsize=1)
def _data(name: str, size: int | None, valid: str | None) -> Dataset:
    return load(name, size=size, valid=valid)


def _workspace(folder: Path, settings: RunSettings) -> Workspace:
    if not (folder / "config.toml").exists():
        return Workspace.start(folder, settings)
    workspace, found = Workspace.resume(folder)
    if found != settings:
        raise ConfigError(f"Expected the settings of this preset in {folder}. Found others; choose another --out.")
    return workspace


def with_fewer_valid(run: Run, examples: int) -> Run:
    """The same run with so many validation examples, class by class: what is judged for every architecture."""
    valid = run.feed.valid
    if examples >= len(valid):
        return run
    return replace(run, feed=replace(run.feed, valid=stratified_split(valid, examples / len(valid), seed=0)[1]))


def score_cells(
    run: Run, estimators: Sequence[str], cells: Sequence[Architecture], *, valid_examples: int, journal: Path
) -> list[dict[str, Any]]:
    """Scores of NAS-Bench-201 cells, each with its true accuracy on the data of the run (percent) as ``nb201``."""
    few = with_fewer_valid(run, valid_examples)
    rows = score_all(Scored(few.net, few.estimators(tuple(estimators))), cells, journal)
    table = NASBench201.load(column=TRUTHS[truth_on(run.settings.data.name)][0])
    for row, cell in zip(rows, cells, strict=True):
        row["nb201"] = round(table.accuracy(cell), 3)
    return rows


def fixed_set(space: Space, count: int) -> list[Architecture]:
    """The same random members whatever the seed of the run; the whole space where it is no larger."""
    if space.size <= count:
        return list(space.enumerate())
    found: dict[Architecture, None] = {}
    position = 0
    while len(found) < count:
        found[space.sample(generator_at(0, "ranked", position))] = None
        position += 1
    return list(found)


@dataclass(frozen=True)
class Scored:
    """Scores an architecture by every estimator and keeps the losses of the short run, in blocks."""

    net: Supernet
    estimators: Sequence[Estimator]

    def __call__(self, architecture: Architecture) -> dict[str, Any]:
        """``scores`` by name, None where one is not finite, and ``losses``."""
        traces: dict[int, Trace] = {}

        def score(estimator: Estimator) -> float | None:
            try:
                if not isinstance(estimator, TraceEstimator):
                    return estimator.score(self.net, architecture)
                if id(estimator.run) not in traces:
                    traces[id(estimator.run)] = estimator.run.trace(self.net, architecture)
                return estimator.read(traces[id(estimator.run)], architecture)
            except NotFiniteError:
                return None

        scores = {estimator.name: score(estimator) for estimator in self.estimators}
        losses = [blocks_of(trace.losses) for trace in traces.values()]
        rounded = {name: None if value is None else float(f"{value:.6g}") for name, value in scores.items()}
        return {"architecture": architecture.key, "scores": rounded, **({"losses": losses[0]} if losses else {})}


def score_all(
    score: Callable[[Architecture], dict[str, Any]], architectures: Sequence[Architecture], journal: Path
) -> list[dict[str, Any]]:
    """score(architecture) of all of them, in their order; what the journal has is not done again."""
    items = {architecture.key: architecture for architecture in architectures}
    with Quiet().stage("score") as report, Serial().open(score) as run:
        return list(run_missing(items, Journal(journal), run, dict, report).values())


def blocks_of(losses: Sequence[float]) -> list[float]:
    """The means over `BLOCKS` blocks of steps, as equal as they can be."""
    return [round(float(part.mean()), 4) for part in np.array_split(np.asarray(losses), min(BLOCKS, len(losses)))]


def curves_in(rows: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """(n, blocks) mean losses of the short runs; one whose loss was not finite is worse than all others."""
    known = [row["losses"] for row in rows if "losses" in row]
    if not known:
        raise NotFiniteError("Expected a short run with finite losses. Got none.")
    worst = [max(block) + 1 for block in zip(*known, strict=True)]
    return np.array([row.get("losses", worst) for row in rows], np.float64)


def seconds_of(run: Run, architectures: Sequence[Architecture]) -> dict[str, float]:
    """The median seconds of a plain short run and of a pass over all validation examples, per architecture."""
    (valid,) = run.estimators(("val_acc",))
    (speed,) = run.estimators(("sotl",))
    return {
        "short_run": statistics.median(_timed(speed, run.net, one) for one in architectures[:TIMED]),
        "val_acc": statistics.median(_timed(valid, run.net, one) for one in architectures[:TIMED]),
    }


def _timed(estimator: Estimator, net: Supernet, architecture: Architecture) -> float:
    started = time.perf_counter()
    estimator.score(net, architecture)
    return time.perf_counter() - started
