"""Settings of supernet training: strategies by name, what is refused, warm-up, and the plan of larger steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from polyarch.runs.parts import Parts

from polyarch.errors import ConfigError, InvalidInput
from polyarch.runs.display import Quiet
from polyarch.runs.optimisers import schedule
from polyarch.runs.pipeline import check
from polyarch.runs.plan import Timings, measure, plan
from polyarch.runs.run import Context
from polyarch.runs.settings import STRATEGIES, OptimiserSettings, RankSettings, RunSettings
from polyarch.runs.workspace import Workspace
from polyarch.strategies import FairPaths, InnerSteps, OneShot, Strategy, Variational
from polyarch.training import FitState

SMALL = {"kind": "nb201", "channels": 2, "cells": 1}
SHAPES = {
    "single_path": (1, 1, None),
    "fair": (5, 1, None),
    "multi_path": (3, 1, None),
    "reptile": (1, 2, 0.0),
    "meta_prox": (1, 2, 0.7),
    "multi_path_meta_prox": (3, 2, 0.7),
}
"""Paths and batches of a step, and the proximal weight of inner steps."""


def context(folder: Path, *, space: dict[str, Any] = SMALL, **train: Any) -> Context:
    search = {"max_params": train.pop("max_params", None)}
    content = {
        "data": {"name": "digits", "limit": 96},
        "space": space,
        "search": search,
        "train": {"paths": 3, "inner_steps": 2, "outer_rate": 0.5, "proximal": 0.7, "batch_size": 16, **train},
    }
    return Context(Parts.build(RunSettings.parse(content, "test")), Workspace(folder), Quiet())


def test_every_name_is_tried() -> None:
    assert {*SHAPES, "variational"} == set(STRATEGIES)


@pytest.mark.parametrize("name", SHAPES)
def test_strategies_by_name(name: str, tmp_path: Path) -> None:
    tried = context(tmp_path, strategy=name, learning_rate=0.03)
    check(tried, "train")
    strategy, scheduled = tried.parts.strategy()
    assert isinstance(strategy, OneShot)
    inner = strategy.inner if isinstance(strategy.inner, InnerSteps) else None
    found = (strategy.paths.count, strategy.batches_per_step, inner.proximal if inner else None)
    assert found == SHAPES[name]
    assert isinstance(strategy.paths, FairPaths) == (name == "fair")
    assert scheduled is (inner or strategy).optimizer and scheduled.param_groups[0]["lr"] == 0.03
    if inner:
        assert strategy.optimizer.param_groups[0]["lr"] == 0.5
    timings = measure(tried, "train")
    assert timings.step > 0 and (timings.paths, timings.batches) == found[:2]


def test_variational_is_still_itself(tmp_path: Path) -> None:
    tried = context(tmp_path, strategy="variational")
    assert isinstance(tried.parts.strategy()[0], Variational)
    assert (measure(tried, "train").paths, measure(tried, "train").batches) == (1, 1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"strategy": "fair", "max_params": 1e4}, ConfigError, "no search.max_params .* with train.strategy fair"),
        ({"strategy": "fair", "space": {"kind": "depth_fc"}}, InvalidInput, "for fair paths. Got no choice"),
        ({"strategy": "reptile", "inner_steps": 7}, ConfigError, "Expected 7 or more batches .* Got 6"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_it_starts(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        check(context(tmp_path, **options), "train")


def test_limits_reach_the_paths(tmp_path: Path) -> None:
    strategy, _ = context(tmp_path, strategy="multi_path_meta_prox", max_params=1500).parts.strategy()
    assert isinstance(strategy, OneShot)
    paths = strategy.paths.draw(torch.Generator().manual_seed(0))
    assert all(strategy.net.parameter_count(path) <= 1500 for path in paths)


@pytest.mark.parametrize(("paths", "batches"), [(1, 1), (4, 1), (1, 4), (4, 4)])
def test_the_plan_counts_steps_and_paths(paths: int, batches: int) -> None:
    """1030 examples are 16 batches of 64 and a rest that is dropped, as are batches that do not fill a step."""
    settings = RunSettings(workers=1, rank=RankSettings(supernets=1))
    timings = Timings(step=2.0 * paths * batches, rank_score=0, search_score=0, paths=paths, batches=batches)
    train, retrain = (
        next(stage for stage in plan(settings, timings, examples, "search") if stage.name == name)
        for name, examples in (("train", 1030 + 64), ("retrain", 1024))
    )
    assert train.seconds == settings.train.epochs * 2.0 * paths * (17 if batches == 1 else 16)
    alone = plan(settings, Timings(step=2.0, rank_score=0, search_score=0), 1024, "search")
    assert retrain.seconds == pytest.approx(next(stage.seconds for stage in alone if stage.name == "retrain"))


@pytest.mark.parametrize("warmup", [0.0, 1.0, 2.5])
def test_the_rate_rises_over_the_first_epochs(warmup: float) -> None:
    settings = OptimiserSettings(epochs=10, learning_rate=0.4, final_learning_rate=0.1, warmup_epochs=warmup)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=9.0)
    hung = schedule(optimizer, settings)
    run = FitState(_Nothing(), epochs=10, steps_per_epoch=8)
    rates = []
    for step in range(80):
        run.step = step
        hung.on_step_start(run)
        rates.append(optimizer.param_groups[0]["lr"])
    top = round(8 * warmup)
    assert rates[:top] == pytest.approx([0.4 * (step + 1) / top for step in range(top)])
    assert rates[top] == pytest.approx(0.4)
    assert all(later < earlier for earlier, later in zip(rates[top:], rates[top + 1 :], strict=False))
    assert 0.1 < rates[-1] < 0.105


class _Nothing(Strategy):
    def step(self, *_: Any, **__: Any) -> dict[str, float]:
        return {}

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        return {}

    def parts(self) -> dict[str, Any]:
        return {}
