"""Six published ways to train a supernet: each keeps the contract, resumes exactly and is what its table says."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from polyarch.data import Batch, Batches
from polyarch.distributions import Empirical
from polyarch.errors import Interrupted
from polyarch.methods.one_shot import CODE_PROXIMAL
from polyarch.methods.one_shot import strategies as one_shot
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import parse_nb201
from polyarch.strategies import FairPaths, InnerSteps, OneShot, PathGradients, RandomPaths, Strategy
from polyarch.supernets import NB201Supernet
from polyarch.testing import StopAt, StrategyContract, random_data, same_bits
from polyarch.training import Callback, CheckpointStore, Schedule, StopRequest, cosine, fit

METHODS = ("spos", "fairnas", "multi_path", "reptile", "meta_prox", "multi_path_meta_prox")
DATA = random_data((3, 8, 8), examples=32 * 4)


def sgd(net: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-2)


def make(method: str, **options: Any) -> tuple[OneShot, torch.optim.Optimizer]:
    """The strategy and the optimiser that a schedule sets."""
    net = NB201Supernet(channels=2, cells=1, classes=3, operations=("none", "skip_connect", "nor_conv_1x1"))
    optimizer = sgd(net)
    strategy: OneShot = getattr(one_shot, method)(net, optimizer, **options)
    return strategy, optimizer


class MethodContract(StrategyContract):
    method: str
    steps = 1

    def make_strategy(self) -> Strategy:
        return make(self.method, **({"steps": self.steps} if self.steps > 1 else {}))[0]

    def make_batches(self) -> list[Batch]:
        return list(Batches(DATA, 8).epoch(0))[: 4 * self.steps]


class TestSpos(MethodContract):
    method = "spos"


class TestFairNAS(MethodContract):
    method = "fairnas"


class TestMultiPath(MethodContract):
    method = "multi_path"


class TestReptile(MethodContract):
    method = "reptile"
    steps = 2


class TestReptileOnSeveralBatches(MethodContract):
    steps = 2

    def make_strategy(self) -> Strategy:
        return make("reptile", steps=2, same_batch=False)[0]


class TestMetaProx(MethodContract):
    method = "meta_prox"
    steps = 2


class TestMultiPathMetaProx(MethodContract):
    method = "multi_path_meta_prox"
    steps = 2


@pytest.mark.parametrize("method", METHODS)
def test_what_each_is_made_of(method: str) -> None:
    strategy, optimizer = make(method)
    assert isinstance(strategy.paths, FairPaths if method == "fairnas" else RandomPaths)
    assert strategy.paths.count == {"fairnas": 3}.get(method, 4 if "multi_path" in method else 1)
    if method in ("spos", "fairnas", "multi_path"):
        assert isinstance(strategy.inner, PathGradients)
        assert strategy.optimizer is optimizer and strategy.batches_per_step == 1
        return
    assert isinstance(strategy.inner, InnerSteps)
    assert strategy.inner.optimizer is optimizer
    assert (strategy.batches_per_step, strategy.inner.passes) == (1, 4)
    assert strategy.paths_per_step == strategy.paths.count * 4
    assert make(method, same_batch=False)[0].batches_per_step == 4
    assert strategy.inner.proximal == (0.0 if method == "reptile" else CODE_PROXIMAL)
    (group,) = strategy.optimizer.param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (1.0, 0, 0)


@pytest.mark.parametrize("method", [method for method in METHODS if method != "fairnas"])
def test_weights_off_the_paths_keep_their_bits(method: str) -> None:
    """Also after steps of others, with momentum and decay in every optimiser."""
    with global_seed(0, "net"):
        net = NB201Supernet(channels=2, cells=1, classes=3)
    optimizer, batches = sgd(net), list(Batches(DATA, 8).epoch(0))
    step = getattr(one_shot, method)
    first = step(net, optimizer)
    first.step(batches[: first.batches_per_step], generator=generator_at(0, "step"))
    texts = (
        "|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|skip_connect~0|nor_conv_3x3~1|none~2|",
        "|nor_conv_3x3~0|+|nor_conv_3x3~0|none~1|+|skip_connect~0|nor_conv_3x3~1|none~2|",
    )
    q = Empirical(net.space, [parse_nb201(text, net.space) for text in texts])
    strategy = step(net, optimizer, q=q)
    drawn = strategy.paths.draw(generator_at(0, "step"))
    on_path = {name for path in drawn for name, _ in net.extract(path).named_parameters()}
    before = copy.deepcopy(net.state_dict())
    strategy.step(batches[: strategy.batches_per_step], generator=generator_at(0, "step"))
    for name, parameter in net.named_parameters():
        assert same_bits(parameter, before[name]) == (name not in on_path), name


@pytest.mark.parametrize(
    "method", [pytest.param(method, marks=pytest.mark.slow if "multi_path" in method else ()) for method in METHODS]
)  # several paths have nothing to resume that one path has not
def test_a_stopped_run_ends_with_the_same_bits(method: str, tmp_path: Path) -> None:
    """Stopped in the middle of an epoch, with a schedule for the optimiser that has one."""

    def run(weights: int, folder: Path, *extra: Callback, stop: StopRequest | None = None) -> tuple[OneShot, object]:
        with global_seed(weights, "weights"):
            strategy, optimizer = make(method)
        train = Batches(random_data((3, 8, 8), examples=4 * 9), 4, seed=1)  # 9 batches, 2 x 4 are used
        callbacks = [Schedule(optimizer, cosine(0.05, warmup=2)), *extra]
        store = CheckpointStore(folder)
        return strategy, fit(strategy, train, epochs=2, seed=3, callbacks=callbacks, checkpoints=store, stop=stop).rows

    whole, rows = run(0, tmp_path / "whole")
    halting = StopAt(3)
    with pytest.raises(Interrupted):
        run(0, tmp_path / "stopped", halting, stop=halting.request)
    resumed, resumed_rows = run(1, tmp_path / "stopped", StopAt(0))
    assert resumed_rows == rows
    for name, part in whole.parts().items():
        assert same_bits(part.state_dict(), resumed.parts()[name].state_dict()), name
