"""Early stopping of networks side by side, each by its own loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from polyarch.data import Batch, Batches
from polyarch.errors import Interrupted, InvalidInput
from polyarch.methods.depth.search import depth_prior
from polyarch.randomness import global_seed
from polyarch.strategies import Supervised
from polyarch.supernets import FullyConnectedDepth
from polyarch.testing import random_data, same_bits
from polyarch.training import Callback, CheckpointStore, FitState, History, StopRequest, fit
from polyarch_experiments.depth.replica_stopping import ReplicaStopping
from polyarch_experiments.depth.replicas import FullyConnectedReplicas
from polyarch_experiments.depth.replicated import (
    ReplicatedDepths,
    ReplicatedSupervised,
    ReplicatedVariational,
    loss_name,
)
from polyarch_experiments.depth.stacked_batches import StackedBatches

EPOCHS = 8


def networks(seed: int = 0, count: int = 3) -> FullyConnectedReplicas:
    with global_seed(seed, "nets"):
        made = [FullyConnectedDepth(features=4, classes=3, max_depth=2, width=4).double() for _ in range(count)]
    return FullyConnectedReplicas(made)


def train(batch_size: int = 12) -> StackedBatches:
    sources = [
        Batches(random_data((4,), examples=12, seed=seed), batch_size, seed=seed, preprocessing=Tensor.double)
        for seed in range(3)
    ]
    return StackedBatches(sources)


class Scripted(ReplicatedSupervised):
    """Its losses follow a script with a row per epoch; every tensor of replica r holds 10 r + the steps taken."""

    def __init__(self, script: Sequence[Sequence[float]]) -> None:
        net = networks(count=len(script[0]))
        super().__init__(net, torch.optim.SGD(net.parameters(), lr=0.0))
        self.script = script
        self.steps = 0

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        row = self.script[self.steps]
        self.steps += 1
        for replica in range(len(row)):
            for value in (*self.net.parameters(), *self.net.buffers()):
                value.data[:, replica] = 10 * replica + self.steps
        return {"loss": 0.0, **{loss_name(replica): value for replica, value in enumerate(row)}}

    def held(self) -> list[float]:
        """What the replicas hold, the same in every tensor."""
        found = [value.detach().transpose(0, 1).flatten(1) for value in (*self.net.parameters(), *self.net.buffers())]
        everything = torch.cat(found, 1)
        assert (everything == everything[:, :1]).all()
        return everything[:, 0].tolist()


@pytest.mark.parametrize(
    ("losses", "patience", "epochs_run", "best", "stopped"),
    [
        # the first stops, would have got better later, and keeps its best
        ([[3, 1, 2, 2, 0, 0, 0], [9, 8, 7, 6, 5, 5, 5]], 2, 7, [1, 4], [3, 6]),
        ([[1, 2, 3, 4], [4, 3, 2, 1]], 1, 4, [0, 3], [1, None]),
        ([[1, 2, 3, 4], [2, 2, 2, 1]], 2, 3, [0, 0], [2, 2]),  # equal is not better; all stop at once
        ([[5, 4, 3], [3, 2, 1], [4, 4, 3]], 9, 3, [2, 2, 2], [None] * 3),
        ([[5, 4, 6, 3], [5, 6, 4, 3]], 2, 4, [3, 3], [None] * 2),
    ],
)
def test_every_replica_stops_alone_and_gets_its_best_back(
    losses: list[list[float]], patience: int, epochs_run: int, best: list[int], stopped: list[int | None]
) -> None:
    strategy = Scripted(list(zip(*losses, strict=True)))
    stopping = ReplicaStopping(patience=patience)
    history = fit(strategy, train(), epochs=len(losses[0]), seed=0, callbacks=[stopping])
    assert len(history.rows) == epochs_run
    assert stopping.best_epochs == best
    assert stopping.stopped == stopped
    assert stopping.best == [min(values[: epoch + 1]) for values, epoch in zip(losses, best, strict=True)]
    assert strategy.held() == [10 * replica + epoch + 1 for replica, epoch in enumerate(best)]


def test_it_takes_networks_side_by_side() -> None:
    network = nn.Linear(4, 3)
    strategy = Supervised(network, torch.optim.SGD(network.parameters(), lr=0.1))
    with pytest.raises(InvalidInput, match=r"trained side by side. Got Supervised"):
        fit(strategy, Batches(random_data((4,)), 32), epochs=1, seed=0, callbacks=[ReplicaStopping(patience=1)])


def test_patience_below_one() -> None:
    with pytest.raises(InvalidInput, match=r"patience of 1 epoch or more. Got 0"):
        ReplicaStopping(patience=0)


class StopAt(Callback):
    """Asks for a stop after a step, as Ctrl-C would."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.request = StopRequest()

    def on_step_end(self, state: FitState, metrics: Any) -> None:
        if state.step == self.step:
            self.request.ask()


def variational(seed: int) -> ReplicatedVariational:
    net = networks(seed)
    prior = depth_prior(net.split()[0].space).double().log_probabilities()
    q = ReplicatedDepths(net.replicas, prior)
    optimizer = torch.optim.SGD([*net.parameters(), *q.parameters()], lr=0.1, momentum=0.9)
    return ReplicatedVariational(net, q, optimizer, num_data=12)


def supervised(seed: int) -> ReplicatedSupervised:
    net = networks(seed)
    return ReplicatedSupervised(net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))


def outcome(
    strategy: ReplicatedVariational | ReplicatedSupervised, stopping: ReplicaStopping, history: History
) -> dict[str, Any]:
    return {
        "rows": history.rows,
        "parts": {name: dict(part.state_dict()) for name, part in strategy.parts().items()},
        "stopping": stopping.state_dict(),
    }


@pytest.mark.parametrize("make", [variational, supervised])
def test_resumed_after_any_step_with_the_same_bits(
    make: Callable[[int], ReplicatedVariational | ReplicatedSupervised], tmp_path: Path
) -> None:
    """Also after some replicas have stopped, and from other weights than at the start."""

    def run(seed: int, folder: Path | None, stop: StopAt | None = None) -> dict[str, Any]:
        strategy, stopping = make(seed), ReplicaStopping(patience=1)
        history = fit(
            strategy,
            train(4),
            epochs=EPOCHS,
            seed=3,
            callbacks=[stopping, stop or Callback()],
            checkpoints=CheckpointStore(folder) if folder else None,
            stop=stop.request if stop else None,
        )
        return outcome(strategy, stopping, history)

    expected = run(0, None)
    epochs = expected["stopping"]["stopped"]
    assert len({*epochs}) > 1 and any(epoch is not None for epoch in epochs)
    for step in range(1, int(expected["rows"][-1]["step"]) + 1):
        stop = StopAt(step)
        with pytest.raises(Interrupted):
            run(0, tmp_path / str(step), stop)
        assert same_bits(run(99, tmp_path / str(step)), expected)
