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
from polyarch.runs.parts import Parts

from polyarch.data import Dataset, load, stratified_split
from polyarch.errors import ConfigError
from polyarch.estimators import Estimator, Trace, TraceEstimator
from polyarch.executors import Serial
from polyarch.files import Journal
from polyarch.randomness import generator_at
from polyarch.runs.display import Quiet
from polyarch.runs.journal import run_missing
from polyarch.runs.pipeline import run as run_pipeline
from polyarch.runs.run import Context
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace
from polyarch.spaces import Architecture, Space
from polyarch.tables import NASBench201

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


def train_supernet(content: Mapping[str, Any], seed: int, folder: Path) -> Parts:
    """A supernet trained by these settings, or the one that an earlier run left in the folder."""
    parts = parts_of({**content, "seed": seed})
    run_pipeline(Context(parts, workspace_of(folder, parts.settings), Quiet()), "train")
    return parts


def parts_of(content: Mapping[str, Any]) -> Parts:
    """The parts of these settings; data that the last ones had are not read again."""
    described = RunSettings.parse({**content, "workers": 1}, "the experiment")
    return Parts.build(described, data=_data(described.data.name, described.data.size))


@lru_cache(maxsize=1)
def _data(name: str, size: int | None) -> Dataset:
    return load(name, size=size)


def workspace_of(folder: Path, settings: RunSettings) -> Workspace:
    """The folder of a run with these settings, new or to go on with."""
    if not (folder / "config.toml").exists():
        return Workspace.start(folder, settings)
    workspace, found = Workspace.resume(folder)
    if found != settings:
        raise ConfigError(f"Expected the settings of this preset in {folder}. Found others; choose another --out.")
    return workspace


def with_fewer_valid(parts: Parts, examples: int) -> Parts:
    """The same parts with so many validation examples, class by class: what is judged for every architecture."""
    if examples >= len(parts.valid):
        return parts
    return replace(parts, valid=stratified_split(parts.valid, examples / len(parts.valid), seed=0)[1])


def score_cells(
    parts: Parts, estimators: Sequence[str], *, architectures: int, valid_examples: int, journal: Path
) -> list[dict[str, Any]]:
    """Scores of a fixed set of NAS-Bench-201 cells, each with its true accuracy (percent) as ``nb201``."""
    few = with_fewer_valid(parts, valid_examples)
    cells = fixed_set(parts.net.space, architectures)
    rows = score_all(Scored(few, few.estimators(tuple(estimators))), cells, journal)
    table = NASBench201.load()
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

    parts: Parts
    estimators: Sequence[Estimator]

    def __call__(self, architecture: Architecture) -> dict[str, Any]:
        """``scores`` by name and ``losses``."""
        traces: dict[int, Trace] = {}
        scores = {}
        for estimator in self.estimators:
            if not isinstance(estimator, TraceEstimator):
                scores[estimator.name] = estimator.score(self.parts.net, architecture)
                continue
            run = estimator.run
            if id(run) not in traces:
                traces[id(run)] = run.trace(self.parts.net, architecture)
            scores[estimator.name] = estimator.read(traces[id(run)], architecture)
        losses = [blocks_of(trace.losses) for trace in traces.values()]
        rounded = {name: float(f"{value:.6g}") for name, value in scores.items()}
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


def seconds_of(parts: Parts, architectures: Sequence[Architecture]) -> dict[str, float]:
    """The median seconds of a plain short run and of a pass over all validation examples, per architecture."""
    (valid,) = parts.estimators(("val_acc",))
    (speed,) = parts.estimators(("sotl",))
    return {
        "short_run": statistics.median(_timed(speed, parts, one) for one in architectures[:TIMED]),
        "val_acc": statistics.median(_timed(valid, parts, one) for one in architectures[:TIMED]),
    }


def _timed(estimator: Estimator, parts: Parts, architecture: Architecture) -> float:
    started = time.perf_counter()
    estimator.score(parts.net, architecture)
    return time.perf_counter() - started
