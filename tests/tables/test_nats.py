"""NATS-Bench: files written as its authors write them."""

from __future__ import annotations

import bz2
import pickle
import tarfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polyarch.errors import CorruptFile, InvalidInput, MissingData
from polyarch.spaces import nb201_space, nb201_string
from polyarch.tables import CurveTable, convert_nats

SPACE = nb201_space()
CELLS = [SPACE.architecture([operation] * 6) for operation in ("nor_conv_3x3", "skip_connect", "none")]
EPOCHS = 4
SHORT = 2
"""Epochs of the runs that the files call 200 and 12."""
EVERY_EPOCH = {  # what runs of 200 epochs have after every epoch, and what only at the end
    "cifar10-valid": (("x-valid",), ("ori-test",)),
    "cifar10": (("ori-test",), ()),
    "cifar100": (("ori-test",), ("x-valid", "x-test")),
    "ImageNet16-120": (("ori-test",), ("x-valid", "x-test")),
}


def value(*parts: object) -> float:
    """A number in 0..100 that differs for every cell, data set, seed, measure and epoch."""
    return float(np.random.default_rng(list(map(ord, repr(parts)))).uniform(0, 100))


def run(cell: int, dataset: str, seed: int, weights: Any = None, epochs: int = EPOCHS) -> dict[str, Any]:
    """`ResultsCount.state_dict()`; a run of fewer epochs is the beginning of the longer one."""
    whole, last = EVERY_EPOCH[dataset]
    keys = [f"{name}@{epoch}" for name in whole for epoch in range(epochs)] + [f"{name}@{epochs - 1}" for name in last]
    return {
        "name": dataset,
        "net_state_dict": weights,
        "train_acc1es": OrderedDict((e, value(cell, dataset, seed, "train", "acc", e)) for e in range(epochs)),
        "train_acc5es": None,
        "train_losses": OrderedDict((e, value(cell, dataset, seed, "train", "loss", e)) for e in range(epochs)),
        "train_times": OrderedDict((e, 1.5) for e in range(epochs)),
        "arch_config": {"channel": 16, "num_cells": 5, "arch_str": nb201_string(CELLS[cell]), "class_num": 10},
        "params": 0.1 + cell,
        "flop": 15.5 + cell,
        "seed": str(seed),
        "epochs": epochs,
        "latency": [0.014, 0.016],
        "eval_names": [*whole, *last],
        "eval_acc1es": {key: np.float64(value(cell, dataset, seed, "acc", key)) for key in keys},
        "eval_times": dict.fromkeys(keys, 0.5),
        "eval_losses": {key: value(cell, dataset, seed, "loss", key) for key in keys},
    }


def results(cell: int, seeds: tuple[int, ...], weights: Any = None, epochs: int = EPOCHS) -> dict[str, Any]:
    """`ArchResults.state_dict()`."""
    return {
        "arch_index": cell,
        "arch_str": nb201_string(CELLS[cell]),
        "all_results": {
            (dataset, seed): run(cell, dataset, seed, weights, epochs) for dataset in EVERY_EPOCH for seed in seeds
        },
        "dataset_seed": {dataset: list(seeds) for dataset in EVERY_EPOCH},
        "clear_net_done": weights is None,
    }


def save(path: Path, content: Any) -> None:
    path.write_bytes(bz2.compress(pickle.dumps(content, protocol=4)))


def write_folder(folder: Path, weights: Any = None) -> Path:
    folder.mkdir()
    names = [nb201_string(cell) for cell in CELLS]
    meta = {"meta_archs": names, "total_archs": len(names), "arch2infos": None, "evaluated_indexes": set()}
    save(folder / "meta.pickle.pbz2", meta)
    for cell, seeds in enumerate([(777, 888, 999), (777,), (777, 999)]):
        content = OrderedDict({"12": results(cell, seeds, weights, SHORT), "200": results(cell, seeds, weights)})
        save(folder / f"{cell:06d}.pickle.pbz2", content)
    return folder


SEEDS = ((777, 888, 999), (777,), (777, 999))


def mean(cell: int, dataset: str, *parts: object) -> float:
    return float(np.mean([value(cell, dataset, seed, *parts) for seed in SEEDS[cell]]))


@pytest.mark.parametrize("kind", ["folder", "tar"])
def test_means_over_runs(tmp_path: Path, kind: str) -> None:
    source = write_folder(tmp_path / "NATS-tss-v1_0-3ffb9-simple")
    if kind == "tar":
        with tarfile.open(tmp_path / "simple.tar", "w") as archive:
            archive.add(source, source.name)
        source = tmp_path / "simple.tar"
    seen: list[int] = []
    written = convert_nats(source, tmp_path / "out" / "nats.npz", seen.append)
    assert [path.name for path in written] == [
        f"nats_{name}{ending}.npz" for ending in ("", "_12") for name in ("cifar10", "cifar100", "imagenet16")
    ]
    assert seen == [1, 2, 3]
    ten, hundred, imagenet, short, *_ = map(CurveTable.load, written)
    epochs = range(EPOCHS)
    for index, cell in enumerate(CELLS):
        assert ten.accuracy(cell) == pytest.approx(mean(index, "cifar10", "acc", f"ori-test@{EPOCHS - 1}"))
        assert hundred.accuracy(cell) == pytest.approx(mean(index, "cifar100", "acc", f"x-test@{EPOCHS - 1}"))
        assert imagenet.accuracy(cell) == pytest.approx(mean(index, "ImageNet16-120", "acc", f"x-test@{EPOCHS - 1}"))
        for table, measure, dataset, kind_of_value, prefix in (
            (ten, "train_loss", "cifar10-valid", ("train", "loss"), ""),
            (ten, "train_accuracy", "cifar10-valid", ("train", "acc"), ""),
            (ten, "valid_loss", "cifar10-valid", ("loss",), "x-valid@"),
            (ten, "valid_accuracy", "cifar10-valid", ("acc",), "x-valid@"),
            (ten, "test_accuracy", "cifar10", ("acc",), "ori-test@"),
            (hundred, "valtest_accuracy", "cifar100", ("acc",), "ori-test@"),
            (imagenet, "valtest_loss", "ImageNet16-120", ("loss",), "ori-test@"),
        ):
            keys = [f"{prefix}{epoch}" if prefix else epoch for epoch in epochs]
            expected = [mean(index, dataset, *kind_of_value, key) for key in keys]
            np.testing.assert_allclose(table.curve(cell, measure), expected, rtol=1e-6, atol=0.00101)
        assert hundred.value(cell, "valid_loss") == pytest.approx(
            mean(index, "cifar100", "loss", f"x-valid@{EPOCHS - 1}")
        )
        assert short.accuracy(cell) == pytest.approx(mean(index, "cifar10", "acc", f"ori-test@{SHORT - 1}"))
        for measure in ("train_loss", "valid_accuracy"):
            assert short.curve(cell, measure).tolist() == ten.curve(cell, measure)[:SHORT].tolist()
        assert short.value(cell, "train_seconds") == pytest.approx(1.5 * SHORT)
        assert ten.value(cell, "params_millions") == pytest.approx(0.1 + index)
        assert ten.value(cell, "latency_seconds") == pytest.approx(0.015)
        assert ten.value(cell, "train_seconds") == pytest.approx(1.5 * EPOCHS)
    both = ("train_loss", "train_accuracy")
    assert ten.measures == short.measures == (*both, "valid_loss", "valid_accuracy", "test_loss", "test_accuracy")
    assert hundred.measures == imagenet.measures == (*both, "valtest_loss", "valtest_accuracy")
    assert ten.space.canonical is not None


def test_weights_are_left_out(tmp_path: Path) -> None:
    weights = OrderedDict(stem=torch.ones(3), head=torch.nn.Parameter(torch.ones(2)))
    plain = convert_nats(write_folder(tmp_path / "simple"), tmp_path / "plain.npz")
    full = convert_nats(write_folder(tmp_path / "full", weights), tmp_path / "full.npz")
    for one, other in zip(plain, full, strict=True):
        first, second = CurveTable.load(one), CurveTable.load(other)
        assert [first.accuracy(cell) for cell in CELLS] == [second.accuracy(cell) for cell in CELLS]


def test_a_run_that_diverged_ends_there(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "simple")
    content = results(1, (777,))
    content["all_results"]["cifar10-valid", 777]["train_losses"][2] = float("nan")
    save(folder / "000001.pickle.pbz2", {"200": content, "12": results(1, (777,), None, SHORT)})
    table = CurveTable.load(convert_nats(folder, tmp_path / "nats.npz")[0])
    assert [len(table.curve(cell, "train_loss")) for cell in CELLS] == [EPOCHS, 2, EPOCHS]


class Attack:
    """Calls a function of its choice when it is unpickled."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return self.call


def test_nothing_is_run(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "simple")
    mark = tmp_path / "mark"
    for function in (Path.touch, exec, np.fromfile):
        save(folder / "000001.pickle.pbz2", {"200": Attack(function, mark if function is Path.touch else str(mark))})
        with pytest.raises(CorruptFile, match=r"000001.pickle.pbz2 to hold results of NATS-Bench\. Found \w+"):
            convert_nats(folder, tmp_path / "nats.npz")
    save(folder / "000001.pickle.pbz2", {"200": Attack(torch.load, str(mark))})  # named, but never called
    with pytest.raises(CorruptFile, match="to be results of NATS-Bench"):
        convert_nats(folder, tmp_path / "nats.npz")
    assert not mark.exists() and not list(tmp_path.glob("*.npz"))


@pytest.mark.parametrize("damaged", [b"", b"no bzip2", bz2.compress(b"no pickle"), bz2.compress(b"\x80\x04")])
def test_damaged_files(tmp_path: Path, damaged: bytes) -> None:
    folder = write_folder(tmp_path / "simple")
    (folder / "000002.pickle.pbz2").write_bytes(damaged)
    with pytest.raises(CorruptFile, match=r"000002\.pickle\.pbz2"):
        convert_nats(folder, tmp_path / "nats.npz")


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.pop("arch_str"),
        lambda content: content.update(arch_str="|none~0|"),
        lambda content: content["dataset_seed"].update(cifar100=[1]),
        lambda content: content["all_results"]["cifar10", 777]["eval_acc1es"].clear(),
        lambda content: content["all_results"]["cifar10-valid", 777].update(train_losses=None),
        lambda content: content["all_results"]["cifar10-valid", 777].update(epochs=9),
    ],
)
def test_incomplete_results(tmp_path: Path, change: Any) -> None:
    folder = write_folder(tmp_path / "simple")
    content = results(1, (777,))
    change(content)
    save(folder / "000001.pickle.pbz2", {"200": content, "12": results(1, (777,), None, SHORT)})
    with pytest.raises(CorruptFile, match=r"Expected 000001\.pickle\.pbz2 to be results of NATS-Bench"):
        convert_nats(folder, tmp_path / "nats.npz")


def test_both_schedules_are_needed(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "simple")
    save(folder / "000001.pickle.pbz2", {"200": results(1, (777,)), "12": {}})
    with pytest.raises(CorruptFile, match=r"Expected 000001\.pickle\.pbz2 to be results of NATS-Bench"):
        convert_nats(folder, tmp_path / "nats.npz")


def test_missing_and_other_files(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="no such file or folder"):
        convert_nats(tmp_path / "absent", tmp_path / "nats.npz")
    folder = write_folder(tmp_path / "simple")
    with pytest.raises(InvalidInput, match="does not fit into memory"):
        convert_nats(folder / "meta.pickle.pbz2", tmp_path / "nats.npz")
    (folder / "000002.pickle.pbz2").unlink()
    with pytest.raises(CorruptFile, match=r"Expected 3 cells in .* Found 2 cells"):
        convert_nats(folder, tmp_path / "nats.npz")
    (folder / "meta.pickle.pbz2").unlink()
    with pytest.raises(CorruptFile, match=r"Expected a file meta\.pickle\.pbz2"):
        convert_nats(folder, tmp_path / "nats.npz")
    (tmp_path / "simple.tar").write_bytes(b"no tar")
    with pytest.raises(CorruptFile, match="to be a tar file"):
        convert_nats(tmp_path / "simple.tar", tmp_path / "nats.npz")
