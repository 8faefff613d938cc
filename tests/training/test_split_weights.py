"""Weights that are split during training: what copies start with, and runs that are stopped around that moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from polyarch.data import Batches, load, resident
from polyarch.errors import Interrupted, InvalidInput
from polyarch.methods.one_shot.strategies import spos
from polyarch.nn import ChoiceBlock, InterChoice, SplitCopies
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import OneShot
from polyarch.supernets import ChainSupernet
from polyarch.testing import StopAt, same_bits
from polyarch.training import (
    Callback,
    CheckpointStore,
    EarlyStopping,
    FitState,
    SplitWeights,
    StopRequest,
    fit,
    split_weights,
)

EPOCHS, STEPS_PER_EPOCH, SPLIT = 3, 2, 1
DATA = resident(load("digits").train.subset(range(16)))


def make(weights: int = 0) -> tuple[ChainSupernet, OneShot, torch.optim.Optimizer]:
    with global_seed(weights, "weights"):
        net = ChainSupernet(
            channels=(4, 4, 4), kernels=(3,), expansions=(1, 2), in_channels=1, stem_channels=4, head_channels=8,
            interchoice=InterChoice("split"),
        )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    return net, spos(net, optimizer), optimizer


def train(
    folder: Path | None, extra: Callback, *, weights: int = 0, stop: StopRequest | None = None, epoch: int = SPLIT
) -> dict[str, Any]:
    net, strategy, optimizer = make(weights)
    store = CheckpointStore(folder) if folder else None
    callbacks = [SplitWeights(net, optimizer, epoch=epoch), extra]
    history = fit(
        strategy, Batches(DATA, 8, seed=1), epochs=EPOCHS, seed=3, callbacks=callbacks, checkpoints=store, stop=stop
    )
    parts = {name: dict(part.state_dict()) for name, part in strategy.parts().items()}
    return {"rows": history.rows, "parts": parts}


def copies_of(net: ChainSupernet) -> list[tuple[ChoiceBlock, SplitCopies]]:
    blocks = [block for block in net.modules() if isinstance(block, ChoiceBlock)]
    return [(block, block.interchoice) for block in blocks if isinstance(block.interchoice, SplitCopies)]


class Watch(Callback):
    """Notes before every step whether the weights are split."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def on_step_start(self, state: FitState) -> None:
        assert isinstance(state.strategy, OneShot) and isinstance(state.strategy.net, ChainSupernet)
        states = {copies.is_split for _, copies in copies_of(state.strategy.net)}
        assert len(states) == 1
        self.seen.append(states.pop())


def step(strategy: OneShot, number: int) -> None:
    batch = next(iter(Batches(DATA, 16, seed=0).epoch(number)))
    strategy.step([batch], generator=generator_at(0, "step", number))


def test_weights_are_split_when_their_epoch_begins() -> None:
    watch = Watch()
    train(None, watch)
    assert watch.seen == [False] * STEPS_PER_EPOCH + [True] * (EPOCHS - SPLIT) * STEPS_PER_EPOCH


def test_until_then_it_is_a_plain_supernet() -> None:
    """Copies are not touched, and the rest is trained as if there were none."""
    net, strategy, _ = make()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with global_seed(0, "weights"):
        plain = ChainSupernet(
            channels=(4, 4, 4), kernels=(3,), expansions=(1, 2), in_channels=1, stem_channels=4, head_channels=8
        )
    other = spos(plain, torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3))
    for number in range(3):
        step(strategy, number)
        step(other, number)
    state = net.state_dict()
    assert all(value.equal(before[name]) for name, value in state.items() if ".interchoice." in name)
    assert same_bits({name: state[name] for name in plain.state_dict()}, dict(plain.state_dict()))


def test_copies_start_with_weights_statistics_and_momentum_and_then_have_their_own() -> None:
    net, strategy, optimizer = make()
    for number in range(6):
        step(strategy, number)
    split_weights(net, optimizer)
    pairs = []
    for block, copies in copies_of(net):
        for option in block.passing:
            for twin in copies.of(option):
                operation = block.operation(option)
                assert same_bits(dict(twin.state_dict()), dict(operation.state_dict()))
                pairs += list(zip(operation.parameters(), twin.parameters(), strict=True))
    known = [(parent, twin) for parent, twin in pairs if parent in optimizer.state]
    assert known and {twin for _, twin in known} == {twin for _, twin in pairs if twin in optimizer.state}
    for parent, child in known:
        momentum, own = optimizer.state[parent]["momentum_buffer"], optimizer.state[child]["momentum_buffer"]
        assert momentum.any() and own.equal(momentum) and own is not momentum
    before = {parent: optimizer.state[parent]["momentum_buffer"].clone() for parent, _ in known}
    for number in range(6, 12):
        step(strategy, number)
    moved = [(p, t) for p, t in known if not optimizer.state[t]["momentum_buffer"].equal(before[p])]
    assert moved and all(not twin.equal(parent) for parent, twin in moved)


def test_a_run_stopped_after_any_step_ends_with_the_same_bits(tmp_path: Path) -> None:
    expected = train(None, Callback())
    for last in range(1, EPOCHS * STEPS_PER_EPOCH + 1):
        stop = StopAt(last)
        with pytest.raises(Interrupted):
            train(tmp_path / str(last), stop, stop=stop.request)
        resumed = train(tmp_path / str(last), Callback(), weights=99)
        assert same_bits(resumed, expected)
    assert not same_bits(train(None, Callback(), epoch=2), expected)


def test_the_best_state_may_be_one_from_before() -> None:
    net, strategy, optimizer = make()
    callbacks = [
        SplitWeights(net, optimizer, epoch=SPLIT),
        EarlyStopping("epoch", maximise=False, patience=5),  # the first epoch is the best
    ]
    fit(strategy, Batches(DATA, 8, seed=1), epochs=EPOCHS, seed=3, callbacks=callbacks)
    assert not any(copies.is_split for _, copies in copies_of(net))


def test_an_epoch_that_never_comes_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"epochs 0\.\.2. Got 3"):
        train(None, Callback(), epoch=EPOCHS)


def test_copies_that_nobody_would_train_are_refused() -> None:
    net, _, _ = make()
    optimizer = torch.optim.SGD(net.head.parameters(), lr=0.1)
    with pytest.raises(InvalidInput, match="optimiser of all parameters"):
        SplitWeights(net, optimizer, epoch=1)
