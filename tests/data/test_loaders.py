"""Batches from loaders of the user's own: the same at every position, whoever reads them."""

from __future__ import annotations

import multiprocessing
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    TensorDataset,
    WeightedRandomSampler,
)

from polyarch.data import Batch, LoaderBatches, NotReplayed
from polyarch.errors import DataError, Interrupted, InvalidInput
from polyarch.randomness import global_seed
from polyarch.strategies import Supervised
from polyarch.testing import StopAt, same_bits
from polyarch.training import CheckpointStore, fit


class Noisy(Dataset[tuple[Tensor, int]]):
    """Numbers with noise from all three global generators; notes which were read."""

    def __init__(self, count: int = 20) -> None:
        self.count = count
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        self.read.append(row)
        noise = torch.rand(2) + np.random.random() + random.random()  # noqa: NPY002
        return torch.tensor([row, -row]) + noise, row % 2


class Stream(IterableDataset[tuple[Tensor, int]]):
    """The same without rows or length."""

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        for row in range(20):
            yield torch.tensor([row, -row]) + torch.rand(2), row % 2


class OwnSampler(Sampler[int]):
    """Draws from a generator that it keeps."""

    def __init__(self) -> None:
        self.generator_of_mine = np.random.default_rng(0)

    def __len__(self) -> int:
        return 20

    def __iter__(self) -> Iterator[int]:
        return iter(self.generator_of_mine.permutation(20).tolist())


class EpochSampler(OwnSampler):
    """Is told the epoch, as distributed samplers are."""

    def set_epoch(self, epoch: int) -> None:
        self.generator_of_mine = np.random.default_rng(epoch)


class GlobalSampler(OwnSampler):
    """Draws from torch's global generator."""

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(20).tolist())


class OwnLoader(DataLoader[Any]):
    """Iterates in its own way."""

    def __iter__(self) -> Any:
        return ((inputs + 1, targets) for inputs, targets in super().__iter__())


def augmented(items: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Mixes the examples of a batch at random."""
    inputs = torch.stack([item for item, _ in items])
    return inputs[torch.randperm(len(inputs))], torch.tensor([label for _, label in items])


LOADERS: dict[str, Callable[..., DataLoader[Any]]] = {
    "shuffled": lambda **more: DataLoader(Noisy(), batch_size=4, shuffle=True, **more),
    "in order": lambda **more: DataLoader(Noisy(), batch_size=3, drop_last=True, **more),
    "own generator": lambda **more: DataLoader(
        Noisy(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(5), **more
    ),
    "weighted": lambda **more: DataLoader(
        Noisy(), batch_size=4, sampler=WeightedRandomSampler([1.0] * 10 + [3.0] * 10, 20), **more
    ),
    "batch sampler": lambda **more: DataLoader(
        Noisy(), batch_sampler=BatchSampler(GlobalSampler(), 4, drop_last=False), **more
    ),
    "told the epoch": lambda **more: DataLoader(Noisy(), batch_size=4, sampler=EpochSampler(), **more),
    "collated": lambda **more: DataLoader(Noisy(), batch_size=4, shuffle=True, collate_fn=augmented, **more),
}


def same(first: list[Batch], second: list[Batch]) -> bool:
    return same_bits([tuple(batch) for batch in first], [tuple(batch) for batch in second])


@pytest.mark.parametrize("kind", LOADERS)
def test_every_batch_has_its_position(kind: str) -> None:
    batches, others = (LoaderBatches(LOADERS[kind](), seed=3) for _ in range(2))
    assert batches.note is None and batches.num_examples == 20
    whole = list(batches.epoch(2))
    assert len(whole) == len(batches) == (6 if kind == "in order" else 5)
    with global_seed(9, "elsewhere"):
        torch.rand(3)
        list(others.epoch(0))  # no matter what came before
        for start in range(len(batches)):
            read: list[int] = others.loader.dataset.read  # type: ignore[union-attr]
            read.clear()
            assert same(list(others.epoch(2, start=start)), whole[start:])
            assert len(read) == sum(len(batch.targets) for batch in whole[start:])  # nothing is read to be skipped
    assert not same(list(batches.epoch(1)), whole)
    assert not same(list(LoaderBatches(LOADERS[kind](), seed=4).epoch(2)), whole)


@pytest.mark.parametrize("kind", ["collated", "weighted"])
def test_worker_processes_read_the_same_and_end(kind: str) -> None:
    alone = list(LoaderBatches(LOADERS[kind](), seed=3).epoch(1, start=1))
    batches = LoaderBatches(LOADERS[kind](num_workers=2, persistent_workers=True), seed=3)
    assert same(list(batches.epoch(1, start=1)), alone)
    reading = batches.epoch(1, start=1)
    next(reading)
    assert len(multiprocessing.active_children()) == 2
    reading.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()


def global_states() -> tuple[Tensor, Any, Any]:
    numbers: Any = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state(), numbers[1], random.getstate()


@pytest.mark.parametrize("kind", ["shuffled", "stream"])
def test_the_randomness_of_others_is_left_alone(kind: str) -> None:
    loader = DataLoader(Stream(), batch_size=4) if kind == "stream" else LOADERS["own generator"]()
    states = global_states()
    own = None if loader.generator is None else loader.generator.get_state()
    for _ in LoaderBatches(loader, batches=5).epoch(0):
        pass
    after = global_states()
    assert torch.equal(states[0], after[0]) and np.array_equal(states[1], after[1]) and states[2] == after[2]
    assert own is None or torch.equal(own, loader.generator.get_state())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_is_read_again_from_the_start(workers: int) -> None:
    loader = DataLoader(Stream(), batch_size=4, num_workers=workers)
    with pytest.raises(InvalidInput, match=r"a length, or batches=, .* Got a DataLoader without one"):
        LoaderBatches(loader)
    batches = LoaderBatches(loader, seed=1, batches=5)
    whole = list(batches.epoch(1))
    with pytest.warns(NotReplayed, match=r"Epoch 1 goes on with batch 3\. A DataLoader without rows to skip is"):
        rest = list(batches.epoch(1, start=3))
    assert same(rest, whole[3:]) and not same(list(batches.epoch(0)), whole)
    assert not multiprocessing.active_children()
    with pytest.raises(DataError, match=r"Expected 30 batches in an epoch of the loader\. Found (5|10)\."):
        list(LoaderBatches(loader, batches=30).epoch(0))


def test_other_iterables() -> None:
    pairs = [(torch.ones(2, 3) * number, torch.zeros(2, dtype=torch.int64)) for number in range(4)]
    batches = LoaderBatches(pairs)
    assert [float(batch.inputs[0, 0]) for batch in batches.epoch(0)] == [0, 1, 2, 3]
    with pytest.raises(InvalidInput, match=r"knows the number of its examples\. Got a list"):
        _ = batches.num_examples
    own = LoaderBatches(OwnLoader(TensorDataset(torch.zeros(4, 1), torch.arange(4)), batch_size=2))
    assert own.note is not None and all(bool((batch.inputs == 1).all()) for batch in own.epoch(0))


def test_a_data_set_that_makes_batches_itself() -> None:
    class Batched(Noisy):
        def __getitem__(self, row: int) -> Any:
            return torch.rand(3, 2) + row, torch.arange(3)

    loader = DataLoader(Batched(6), batch_size=None, sampler=RandomSampler(range(6)))
    batches = LoaderBatches(loader, seed=2)
    whole = list(batches.epoch(0))
    assert len(whole) == 6 and same(list(batches.epoch(0, start=4)), whole[4:])


def test_a_sampler_with_a_state_of_its_own_says_so() -> None:
    batches = LoaderBatches(DataLoader(Noisy(), batch_size=4, sampler=OwnSampler()))
    assert batches.note is not None and "OwnSampler has a state of its own" in batches.note
    list(batches.epoch(0))
    with pytest.warns(NotReplayed, match="give it a method set_epoch"):
        assert len(list(batches.epoch(0, start=2))) == 3


@pytest.mark.parametrize(
    ("batch", "found"), [(torch.zeros(2, 2), "Tensor"), ((torch.zeros(1),) * 3, "tuple of 3"), ({"x": 1}, "dict")]
)
def test_batches_that_are_no_pairs(batch: Any, found: str) -> None:
    with pytest.raises(DataError, match=rf"two tensors, inputs and targets, from the loader\. Got a {found}"):
        list(LoaderBatches([batch]).epoch(0))


def trained(folder: Path | None, kind: str, **options: Any) -> dict[str, Any]:
    with global_seed(0, "weights"):
        network = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 2))
    strategy = Supervised(network, torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9))
    loader = DataLoader(Stream(), batch_size=4) if kind == "stream" else LOADERS[kind]()
    train = LoaderBatches(loader, batches=5, seed=1)
    valid = LoaderBatches(DataLoader(Noisy(), batch_size=10))
    checkpoints = None if folder is None else CheckpointStore(folder)
    history = fit(strategy, train, valid, epochs=3, seed=2, checkpoints=checkpoints, **options)
    return {"rows": history.rows, "weights": dict(network.state_dict())}


@pytest.mark.parametrize("kind", ["own generator", "collated", "stream"])
def test_a_stopped_training_ends_with_the_same_bits(kind: str, tmp_path: Path) -> None:
    expected = trained(None, kind)
    for step in (2, 5, 13):
        stop = StopAt(step)
        with pytest.raises(Interrupted):
            trained(tmp_path / str(step), kind, callbacks=[stop], stop=stop.request)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if kind == "stream" else "error", NotReplayed)
            assert same_bits(trained(tmp_path / str(step), kind, callbacks=[StopAt(-1)]), expected)
