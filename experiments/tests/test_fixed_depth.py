"""Networks of a fixed depth, the baseline of a learned one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.data import Batches
from polyarch.methods.depth.search import DepthSearch, DepthTraining
from polyarch.randomness import global_seed
from polyarch.supernets import ConvolutionalDepth, DepthSupernet, FullyConnectedDepth
from polyarch.testing import random_data, same_bits
from polyarch.training import CheckpointStore
from polyarch_experiments.depth.fixed_depth import FixedDepth


def fully_connected(seed: int = 0) -> DepthSupernet:
    with global_seed(seed, "net"):
        return FullyConnectedDepth(features=64, classes=3, max_depth=2, width=6)


def convolutional(seed: int = 0) -> DepthSupernet:
    with global_seed(seed, "net"):
        return ConvolutionalDepth(classes=3, max_depth=2, channels=4, inner_channels=2)


def source(batch_size: int = 30) -> Batches:
    return Batches(random_data((1, 8, 8), examples=30), batch_size, seed=1, shuffle=batch_size < 30)


both = pytest.mark.parametrize("make", [fully_connected, convolutional])


@both
@pytest.mark.parametrize("batch_size", [30, 10])
def test_learns(make: Callable[[], DepthSupernet], batch_size: int) -> None:
    net = make()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    network, history = FixedDepth(epochs=batch_size, learning_rate=0.1).fit(net, source(batch_size), seed=0)
    assert min(history["loss"]) < 0.3 * history["loss"][0]
    assert set(history.rows[0]) == {"epoch", "step", "loss"}
    assert same_bits(net.state_dict(), before)  # the network is a copy
    assert sum(p.numel() for p in network.parameters()) == net.parameter_count(net.space.members[-1])
    (batch,) = Batches(random_data((1, 8, 8), examples=30), 30, shuffle=False).epoch(0)
    with torch.no_grad():
        assert network.eval()(batch.inputs).argmax(1).eq(batch.targets).double().mean() > 0.8


@both
def test_only_the_last_exit_is_trained(make: Callable[[], DepthSupernet]) -> None:
    """Step by step the loss is the cross-entropy at full depth."""
    net, by_hand = make().double(), make().double().train()
    train = Batches(random_data((1, 8, 8), examples=30), 30, shuffle=False, preprocessing=Tensor.double)
    _, history = FixedDepth(epochs=5, momentum=0.0, learning_rate=0.05).fit(net, train, seed=0)
    (batch,) = train.epoch(0)
    optimizer = torch.optim.SGD(by_hand.parameters(), lr=0.05)
    for row in history.rows:
        loss = F.cross_entropy(by_hand(batch.inputs, by_hand.space.members[-1]), batch.targets)
        assert row["loss"] == pytest.approx(loss.item(), rel=1e-9)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_the_best_state_by_validation_loss_is_kept() -> None:
    other = Batches(random_data((1, 8, 8), examples=30, seed=3), 30, shuffle=False)
    network, history = FixedDepth(epochs=20, patience=4, learning_rate=0.5).fit(
        fully_connected(), source(10), other, seed=0
    )
    best = min(history["valid_loss"])
    assert len(history.rows) == min(history["valid_loss"].index(best) + 1 + 4, 20)
    (batch,) = other.epoch(0)
    with torch.no_grad():
        loss = F.cross_entropy(network.eval()(batch.inputs), batch.targets).item()
    assert loss == pytest.approx(best, rel=1e-6)


def test_a_finished_run_comes_back_from_its_checkpoint(tmp_path: Path) -> None:
    outcomes = []
    for seed in (0, 99):
        network, history = FixedDepth(epochs=3).fit(
            fully_connected(seed), source(), seed=0, checkpoints=CheckpointStore(tmp_path)
        )
        outcomes.append((history.rows, dict(network.state_dict())))
    assert same_bits(*outcomes)


@pytest.mark.parametrize("kind", [FixedDepth, DepthSearch])
def test_the_protocol_of_the_document(kind: type[DepthTraining]) -> None:
    """SGD, momentum 0.5, learning rate 0.1, no decay, patience 500: the same for both."""
    training = kind()
    (group,) = training.optimizer(nn.Linear(2, 2)).param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.1, 0.5, 0.0)
    assert (training.patience, training.drop_after) == (500, None)
