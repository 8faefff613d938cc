"""A training has the same bits whatever the number of threads of its caller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from polyarch.data import Batches, TensorData, load, resident
from polyarch.errors import Interrupted, InvalidInput
from polyarch.randomness import global_seed
from polyarch.strategies import Supervised
from polyarch.testing import StopAt, same_bits
from polyarch.training import CheckpointStore, fit


@pytest.fixture(autouse=True)
def threads_restored() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def digits() -> TensorData:
    return resident(load("digits").train.subset(range(128)))


def trained(data: TensorData, caller: int, **options: Any) -> dict[str, Any]:
    """The weights of a convolutional network trained by a caller with this many threads."""
    with global_seed(0, "weights"):
        network = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
        )
    strategy = Supervised(network, torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9))
    torch.set_num_threads(caller)
    try:
        fit(strategy, Batches(data, 32, seed=1), Batches(data, 64, shuffle=False), epochs=2, seed=0, **options)
    finally:
        assert torch.get_num_threads() == caller
    return dict(network.state_dict())


def test_the_threads_of_the_caller_do_not_matter(digits: TensorData) -> None:
    if same_bits(trained(digits, 1, threads=None), trained(digits, 2, threads=None)):
        pytest.skip("one and two threads sum in the same order on this machine")
    alone = trained(digits, 1)
    assert same_bits(alone, trained(digits, 2))
    assert same_bits(alone, trained(digits, 1, threads=None))
    assert same_bits(trained(digits, 1, threads=2), trained(digits, 2, threads=None))


def test_a_training_is_resumed_under_another_number_of_threads(digits: TensorData, tmp_path: Path) -> None:
    stop = StopAt(3)
    with pytest.raises(Interrupted):
        trained(digits, 2, checkpoints=CheckpointStore(tmp_path), stop=stop.request, callbacks=[stop])
    resumed = trained(digits, 1, checkpoints=CheckpointStore(tmp_path), callbacks=[StopAt(-1)])
    assert same_bits(resumed, trained(digits, 1))


def test_no_threads_at_all_are_refused(digits: TensorData) -> None:
    with pytest.raises(InvalidInput, match=r"1 or more threads, or None for the caller's number\. Got 0"):
        trained(digits, 1, threads=0)
