"""Examples behind a loader of the user's own, and a search among them."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

import polyarch
from polyarch import OneOf
from polyarch.data import Batches, LoaderExamples, Normalisation, load, resident
from polyarch.errors import DataError, InvalidInput


class Jittered(Dataset[tuple[Tensor, int]]):
    """Rows of three numbers with random noise; the labels are 5 and 7."""

    def __init__(self, count: int = 40, noise: float = 0.1) -> None:
        self.count, self.noise = count, noise

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        return torch.tensor([row, -row, row % 2], dtype=torch.float32) + self.noise * torch.randn(3), 5 + 2 * (row % 2)


def examples(**options: Any) -> LoaderExamples:
    data = load(DataLoader(Jittered(), batch_size=8, **options)).train
    assert isinstance(data, LoaderExamples)
    return data


def test_a_data_set_that_is_read_when_needed() -> None:
    data = load(DataLoader(Jittered(), batch_size=8))
    assert (data.name, data.class_names, data.input_shape, data.is_bytes) == ("Jittered", ("5", "7"), (3,), False)
    assert (len(data.train), data.test.targets.bincount().tolist()) == (32, [4, 4])
    (inputs,) = data.train.stream([torch.tensor([3, 0])])
    assert isinstance(data.train, LoaderExamples)
    assert inputs[:, 0].round().tolist() == data.train.rows[[3, 0]].tolist()
    assert data.train.targets.tolist() == (data.train.rows % 2).tolist()


def test_noise_is_new_in_every_epoch_and_the_same_for_every_reader() -> None:
    alone = Batches(examples(), 8, seed=1)
    epochs = [[batch.inputs for batch in alone.epoch(number)] for number in (0, 1, 0)]
    assert all(map(torch.equal, epochs[0], epochs[2]))
    first, second = (torch.cat(inputs) for inputs in epochs[:2])
    rows = [values[:, 0].round().argsort() for values in (first, second)]
    assert torch.equal(first[rows[0]].round()[:, 0], second[rows[1]].round()[:, 0])
    assert not torch.isclose(first[rows[0]], second[rows[1]]).any()
    with_workers = Batches(examples(num_workers=2), 8, seed=1)
    reading = with_workers.epoch(0, start=2)
    assert torch.equal(next(reading).inputs, epochs[0][2])
    assert multiprocessing.active_children()
    reading.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()
    copied = Batches(pickle.loads(pickle.dumps(examples())), 8, seed=1)  # as it travels to worker processes
    assert torch.equal(next(copied.epoch(0)).inputs, epochs[0][0])


def test_statistics_are_those_of_what_is_read() -> None:
    inputs = 1000 + torch.randn(600, 2, 3, 3) * torch.tensor([1.0, 5.0]).view(2, 1, 1)
    shifted = TensorDataset(inputs, torch.arange(600) % 2)
    data = load(DataLoader(shifted, batch_size=7)).train
    streamed, whole = Normalisation.of(data), Normalisation.of(resident(data))
    assert streamed.mean == pytest.approx(whole.mean, rel=1e-9) and streamed.std == pytest.approx(whole.std, rel=1e-6)


def test_loaders_of_their_own() -> None:
    data = load(
        DataLoader(Jittered(), batch_size=8), valid=DataLoader(Jittered(9, 0.0)), test=DataLoader(Jittered(7, 0.0))
    )
    assert isinstance(data.valid, LoaderExamples) and (len(data.train), len(data.valid), len(data.test)) == (40, 9, 7)
    assert data.valid.targets.tolist() == [0, 1] * 4 + [0]
    (inputs,) = data.valid.stream([torch.arange(9)])
    assert inputs[:, 0].tolist() == list(range(9))


@pytest.mark.parametrize(
    ("targets", "kind", "names"),
    [
        (torch.linspace(0, 1, 40), "regression", ("target",)),
        (torch.rand(40, 2), "regression", ("target 0", "target 1")),
        (torch.arange(120).view(40, 3) % 2 == 0, "multi-label", ("target 0", "target 1", "target 2")),
    ],
)
def test_numbers_and_labels_of_a_loader(targets: Tensor, kind: str, names: tuple[str, ...], tmp_path: Path) -> None:
    data = load(DataLoader(TensorDataset(torch.randn(40, 3), targets), batch_size=8))
    assert data.kind == kind and data.target_names == names and len(data.train) + len(data.test) == 40
    whole = targets.view(40, -1)
    assert isinstance(data.train, LoaderExamples)
    assert torch.equal(data.train.targets, whole[data.train.rows].to(data.train.targets.dtype))
    (inputs,) = data.train.stream([torch.arange(4)])
    assert inputs.shape == (4, 3)


class Shuffling:
    """Mixes labels up: a network would learn from wrong ones."""

    def __call__(self, items: Any) -> Any:
        inputs, labels = default_collate(items)
        return inputs, labels[torch.randperm(len(labels))]


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (DataLoader(Jittered(), batch_size=None), "makes batches of a map-style data set. Got one of Jittered"),
        (
            DataLoader(TensorDataset(torch.zeros(9, 2), torch.zeros(9, 2, 2))),
            r"targets \(B,\) or \(B, T\) from the loader\. Got \(9, 2, 2\)",
        ),
        (DataLoader(TensorDataset(torch.zeros(9, 2))), "Expected batches of two tensors"),
        (DataLoader(Jittered(8), collate_fn=lambda items: default_collate(items[:1])), "8 inputs and labels in a b"),
    ],
)
def test_loaders_that_cannot_be_searched_with(loader: DataLoader[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(loader)


def test_labels_must_stay_the_same() -> None:
    data = load(DataLoader(Jittered(), collate_fn=Shuffling()))
    with pytest.raises(DataError, match="labels of an example to be the same whenever it is read"):
        list(data.train.stream(torch.arange(32).split(16)))
    with pytest.raises(InvalidInput, match="no size with a DataLoader"):
        load(DataLoader(Jittered()), size=8)


def test_a_search_with_loaders(tmp_path: Path) -> None:
    found = polyarch.search(
        DataLoader(Jittered(), batch_size=8, shuffle=True), validation=DataLoader(Jittered(10, 0.0)),
        module=nn.Sequential(OneOf("mix", relu=nn.ReLU(), tanh=nn.Tanh()), nn.Linear(3, 2)),
        out=tmp_path / "run", quiet=True, report=False, settings=SMALL,
    )  # fmt: skip
    data = found.results.data
    assert [data[part] for part in ("train", "valid", "test")] == [32, 10, 8]
    assert data["split"]["valid"] == "those of a DataLoader" and data["dtype"] == "float32"
    assert found.predictor()(torch.zeros(1, 3)).probabilities.shape == (1, 2)


SMALL: dict[str, Any] = {
    "train.epochs": 2, "train.batch_size": 8, "scores.steps": 1, "scores.policy_batches": 1, "scores.batch_size": 8,
    "rank.architectures": 0, "search.budget": 2, "search.window": 2, "search.population": 2, "search.tournament": 2,
    "retrain.epochs": 1, "retrain.batch_size": 8, "retrain.seeds": 1, "retrain.members": 1,
    "retrain.random_architectures": 0, "programs": [],
}  # fmt: skip
