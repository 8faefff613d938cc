"""Settings of supernet training: strategies by name, what is refused, warm-up, and the plan of larger steps."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from polyarch.data import TensorData
from polyarch.errors import ConfigError, InvalidInput
from polyarch.methods.one_shot.method import ScoreTimings
from polyarch.plugins import STRATEGIES
from polyarch.runs.run import Run
from polyarch.runs.sections import OptimiserSettings
from polyarch.runs.settings import RunSettings
from polyarch.runs.training import named_training, schedule, sgd
from polyarch.runs.workspace import Workspace
from polyarch.strategies import FairPaths, InnerSteps, OneShot, Strategy, Variational
from polyarch.training import FitState

SMALL = {"kind": "nb201", "channels": 2, "cells": 1}
SHAPES = {
    "single_path": (1, 1, None),
    "fair": (5, 1, None),
    "multi_path": (3, 1, None),
    "reptile": (2, 1, 0.0),
    "meta_prox": (2, 1, 0.7),
    "multi_path_meta_prox": (6, 1, 0.7),
}
"""Passes over every batch of a step, batches, and the proximal weight of inner steps, of which there are two."""


def made(folder: Path, *, space: dict[str, Any] = SMALL, **train: Any) -> Run:
    search = {"max_params": train.pop("max_params", None)}
    content = {
        "data": {"name": "digits", "limit": 96},
        "space": space,
        "search": search,
        "train": {"paths": 3, "inner_steps": 2, "outer_rate": 0.5, "proximal": 0.7, "batch_size": 16, **train},
    }
    return Run.build(RunSettings.parse(content, "test"), Workspace(folder), until="train")


def test_every_name_is_tried() -> None:
    entries = entry_points(group=STRATEGIES.group)
    own = {entry.name for entry in entries if entry.dist is not None and entry.dist.name == "polyarch"}
    assert {*SHAPES, "variational"} == own


class TestDecay:
    """One step of SGD on a loss without gradient shrinks w to (1 - rate * decay) w where it decays."""

    rate, decay = 0.5, 0.1

    def shrunk(self, *, decay_norms: bool) -> dict[str, float]:
        network = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.Linear(3, 2)).double()
        for parameter in network.parameters():
            nn.init.ones_(parameter)
            parameter.grad = torch.zeros_like(parameter)
        settings = OptimiserSettings(learning_rate=self.rate, weight_decay=self.decay, decay_norms=decay_norms)
        optimizer = sgd(network, settings)
        optimizer.step()
        return {name: parameter.unique().item() for name, parameter in network.named_parameters()}

    def test_of_everything(self) -> None:
        assert self.shrunk(decay_norms=True) == {
            f"{layer}.{name}": pytest.approx(1 - self.rate * self.decay)
            for layer in range(3)
            for name in ("weight", "bias")
        }

    def test_not_of_batch_normalisation(self) -> None:
        expected = {0: 1 - self.rate * self.decay, 1: 1.0, 2: 1 - self.rate * self.decay}
        assert self.shrunk(decay_norms=False) == {
            f"{layer}.{name}": pytest.approx(value) for layer, value in expected.items() for name in ("weight", "bias")
        }

    @pytest.mark.parametrize("name", SHAPES)
    def test_the_schedule_reaches_both_groups(self, name: str, tmp_path: Path) -> None:
        run = made(tmp_path, strategy=name, decay_norms=False)
        training = named_training(run)
        optimizer = training.optimizer
        assert [group["weight_decay"] for group in optimizer.param_groups] == [5e-4, 0.0]
        assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(run.net.parameters()))
        state = FitState(training.strategy, epochs=2, steps_per_epoch=4)
        state.step = 3
        schedule(optimizer, run.settings.train).on_step_start(state)
        first, second = (group["lr"] for group in optimizer.param_groups)
        assert first == second != run.settings.train.learning_rate


@pytest.mark.parametrize("name", SHAPES)
def test_strategies_by_name(name: str, tmp_path: Path) -> None:
    tried = made(tmp_path, strategy=name, learning_rate=0.03)
    tried.method.check(tried)
    training = named_training(tried)
    strategy, scheduled = training.strategy, training.optimizer
    assert isinstance(strategy, OneShot)
    inner = strategy.inner if isinstance(strategy.inner, InnerSteps) else None
    found = (strategy.paths_per_step, strategy.batches_per_step, inner.proximal if inner else None)
    assert found == SHAPES[name]
    assert isinstance(strategy.paths, FairPaths) == (name == "fair")
    assert scheduled is (inner or strategy).optimizer and scheduled.param_groups[0]["lr"] == 0.03
    if inner:
        assert strategy.optimizer.param_groups[0]["lr"] == 0.5
    timings = tried.method.measure(tried)
    assert timings.step > 0 and (timings.paths, timings.batches) == found[:2]


@pytest.mark.parametrize(("same_batch", "expected"), [(True, (2, 1)), (False, (1, 2))])
def test_inner_steps_are_on_one_batch_or_on_one_each(
    same_batch: bool, expected: tuple[int, int], tmp_path: Path
) -> None:
    strategy = named_training(made(tmp_path, strategy="reptile", same_batch=same_batch)).strategy
    assert (strategy.paths_per_step, strategy.batches_per_step) == expected


def test_variational_is_still_itself(tmp_path: Path) -> None:
    tried = made(tmp_path, strategy="variational")
    assert isinstance(named_training(tried).strategy, Variational)
    timings = tried.method.measure(tried)
    assert (timings.paths, timings.batches) == (1, 1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"strategy": "fair", "max_params": 1e4}, ConfigError, "no search.max_params .* with train.strategy fair"),
        ({"strategy": "fair", "space": {"kind": "depth_fc"}}, InvalidInput, "for fair paths. Got no choice"),
        (
            {"strategy": "reptile", "inner_steps": 7, "same_batch": False},
            ConfigError,
            "Expected 7 or more batches .* Got 6",
        ),
        (
            {"space": {"kind": "mlp", "width": 8}, "batch_size": 1},
            ConfigError,
            r"Expected train.batch_size of 2 or more for batch normalisation\. Got 1",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_before_it_starts(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    refused = made(tmp_path, **options)
    with pytest.raises(error, match=words):
        refused.method.check(refused)


def test_limits_reach_the_paths(tmp_path: Path) -> None:
    strategy = named_training(made(tmp_path, strategy="multi_path_meta_prox", max_params=1500)).strategy
    assert isinstance(strategy, OneShot)
    paths = strategy.paths.draw(torch.Generator().manual_seed(0))
    assert all(strategy.net.parameter_count(path) <= 1500 for path in paths)


@pytest.mark.parametrize(("paths", "batches"), [(1, 1), (4, 1), (1, 4), (4, 4)])
def test_the_plan_counts_steps_and_paths(paths: int, batches: int) -> None:
    """1094 examples are 17 batches of 64 and a rest that is dropped; a batch that fills no step counts by its share."""

    def planned(name: str, examples: int, timings: ScoreTimings) -> float:
        data = TensorData(torch.zeros(examples, 1, 4, 4), torch.zeros(examples, dtype=torch.int64), 2)
        limited = replace(run, feed=replace(run.feed, train=data))
        return next(stage.seconds for stage in run.method.plan(limited, timings) if stage.name == name)

    settings = RunSettings.parse({"space": SMALL, "workers": 1, "rank": {"supernets": 1}}, "test")
    run = Run.build(settings, Workspace(Path()))
    timings = ScoreTimings(step=2.0 * paths * batches, paths=paths, batches=batches)
    expected = settings.train.epochs * 2.0 * paths * 17
    assert planned("train", 1030 + 64, timings) == expected
    alone = planned("retrain", 1024, ScoreTimings(step=2.0))
    assert planned("retrain", 1024, timings) == pytest.approx(alone)


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
