"""A run that is stopped anywhere and resumed ends with the same bits as one that never stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from polyarch.data import Batches, RandomShift, TensorData, load, resident
from polyarch.distributions import Categorical, FactorisedCategorical, geometric_prior
from polyarch.errors import Interrupted
from polyarch.objectives import SampledExpectation
from polyarch.randomness import global_seed
from polyarch.strategies import OneShot, Strategy, Supervised, Variational
from polyarch.supernets import ChainSupernet, FullyConnectedDepth, NB201Supernet
from polyarch.testing import StopAt, same_bits
from polyarch.training import Callback, CheckpointStore, EarlyStopping, FitState, History, Schedule, cosine, fit

EPOCHS = 3
STEPS_PER_EPOCH = 2
EXAMPLES = 18
STEPS = EPOCHS * STEPS_PER_EPOCH


@cache
def digits() -> TensorData:
    return resident(load("digits").train.subset(range(EXAMPLES)))


def single_path() -> Strategy:
    net = NB201Supernet(channels=2, cells=1, in_channels=1)
    return OneShot(net, torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3))


def supervised() -> Strategy:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 10))
    return Supervised(network, torch.optim.AdamW(network.parameters(), lr=0.01))


def variational_exact() -> Strategy:
    net = FullyConnectedDepth(features=64, classes=10, max_depth=3, width=8)
    q = Categorical(net.space)
    optimizer = torch.optim.SGD([*net.parameters(), *q.parameters()], lr=0.05, momentum=0.9, nesterov=True)
    return Variational(net, q, geometric_prior(net.space, 0.85), optimizer, num_data=EXAMPLES)


def variational_sampled() -> Strategy:
    net = ChainSupernet(
        channels=(4, 4), kernels=(3,), expansions=(1, 2), in_channels=1, stem_channels=4, head_channels=8
    )
    q = FactorisedCategorical(net.space)
    optimizer = torch.optim.Adam([*net.parameters(), *q.parameters()], lr=0.01)
    prior = FactorisedCategorical(net.space, learnable=False)
    return Variational(net, q, prior, optimizer, num_data=EXAMPLES, expectation=SampledExpectation(2))


@dataclass
class Setup:
    """Everything a run needs, made anew as a new process would."""

    strategy: Strategy
    callbacks: list[Callback]

    def run(self, folder: Path | None, **options: Any) -> History:
        data = digits()
        train = Batches(data, 8, augmentations=[RandomShift(1)], seed=1)
        valid = Batches(data, 16, shuffle=False)
        checkpoints = CheckpointStore(folder) if folder else None
        callbacks = [*self.callbacks, *options.pop("extra", ())]
        return fit(
            self.strategy, train, valid, epochs=EPOCHS, seed=3, callbacks=callbacks, checkpoints=checkpoints, **options
        )


def make(kind: str, *, weights: int = 0) -> Setup:
    """A resumed process starts from other weights, to show that none of them survive."""
    with global_seed(weights, "weights"):
        strategy = KINDS[kind]()
    optimizer = strategy.parts()["optimizer"]
    assert isinstance(optimizer, torch.optim.Optimizer)
    callbacks: list[Callback] = [Schedule(optimizer, cosine(0.05, warmup=2))]
    if kind == "early stopping":  # the smallest loss comes first: one more epoch, then the first one's state
        callbacks.append(EarlyStopping("valid_loss", maximise=True, patience=1))
    return Setup(strategy, callbacks)


KINDS: dict[str, Callable[[], Strategy]] = {
    "single path": single_path,
    "supervised": supervised,
    "variational exact": variational_exact,
    "variational sampled": variational_sampled,
    "early stopping": supervised,
}


class Killed(BaseException):
    """The end of a process without any goodbye."""


class KillAt(Callback):
    """Ends the run in the middle of a step, without a checkpoint of it."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_start(self, state: FitState) -> None:
        if state.step == self.step:
            raise Killed


class NeverStarted(Callback):
    """Fails when training goes on."""

    def on_start(self, state: FitState) -> None:
        pytest.fail("a finished run started again")


def outcome(setup: Setup, history: History) -> dict[str, Any]:
    return {
        "rows": history.rows,
        "parts": {name: dict(part.state_dict()) for name, part in setup.strategy.parts().items()},
        "callbacks": [callback.state_dict() for callback in setup.callbacks],
    }


def uninterrupted(kind: str) -> dict[str, Any]:
    setup = make(kind)
    return outcome(setup, setup.run(None))


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_after_any_step(kind: str, tmp_path: Path) -> None:
    expected = uninterrupted(kind)
    last = int(expected["rows"][-1]["step"])
    assert last == (2 * STEPS_PER_EPOCH if kind == "early stopping" else STEPS)
    for step in range(1, last + 1):
        stop = StopAt(step)
        with pytest.raises(Interrupted):
            make(kind).run(tmp_path / str(step), extra=[stop], stop=stop.request)
        resumed = make(kind, weights=99)
        history = resumed.run(tmp_path / str(step), extra=[Callback()])
        assert same_bits(outcome(resumed, history), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_after_every_step(kind: str, tmp_path: Path) -> None:
    expected = uninterrupted(kind)
    for step in range(1, int(expected["rows"][-1]["step"]) + 1):
        stop = StopAt(step)
        with pytest.raises(Interrupted):
            make(kind, weights=step - 1).run(tmp_path, extra=[stop], stop=stop.request)
    resumed = make(kind, weights=99)
    assert same_bits(outcome(resumed, resumed.run(tmp_path, extra=[Callback()])), expected)


@pytest.mark.parametrize("seconds", [0.0, 3600.0], ids=["a checkpoint every step", "no checkpoint"])
@pytest.mark.parametrize("step", [0, 1, STEPS_PER_EPOCH, STEPS - 1])
def test_killed_before_any_step(step: int, seconds: float, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        make("supervised").run(tmp_path, extra=[KillAt(step)], checkpoint_seconds=seconds)
    assert tmp_path.exists() and bool(list(tmp_path.iterdir())) == (seconds == 0 and step > 0)
    resumed = make("supervised")
    assert same_bits(outcome(resumed, resumed.run(tmp_path, extra=[Callback()])), uninterrupted("supervised"))


@pytest.mark.parametrize("kind", ["supervised", "early stopping"])
def test_finished_run_is_not_run_again(kind: str, tmp_path: Path) -> None:
    first = make(kind)
    expected = outcome(first, first.run(tmp_path, extra=[Callback()]))
    again = make(kind, weights=99)
    assert same_bits(outcome(again, again.run(tmp_path, extra=[NeverStarted()])), expected)


def test_the_test_can_fail() -> None:
    """Other weights at the start do end in other bits."""
    other = make("supervised", weights=99)
    assert not same_bits(outcome(other, other.run(None)), uninterrupted("supervised"))
