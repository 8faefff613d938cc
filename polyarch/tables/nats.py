"""NATS-Bench: the learning curves of all NAS-Bench-201 cells, from the official files.

Dong, Liu, Musial and Gabrys (2021), "NATS-Bench: Benchmarking NAS Algorithms for Architecture Topology and Size",
arXiv:2009.00437.

The archive ``NATS-tss-v1_0-3ffb9-simple`` has one bzip2-compressed pickle per cell. The single files
``NATS-tss-v1_0-3ffb9.pickle.pbz2`` and ``NAS-Bench-201-v1_1-096897.pth`` are refused: each is one pickle of hundreds of
millions of Python numbers.
"""

import bz2
import io
import tarfile
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.data.pickles import PlainType, PlainUnpickler
from polyarch.errors import CorruptFile, InvalidInput, MissingData, first_line
from polyarch.spaces import nb201_space, parse_nb201
from polyarch.tables.curve_table import CurveTable
from polyarch.tables.curves import Curves

SCHEDULES = {"200": "", "12": "_12"}
"""Runs by their epochs, each with cosine annealing to its end, and what follows the data set in the name of a table."""
ENDING = ".pickle.pbz2"
ACCURACY_STEP = 0.002
"""The resolution of packed accuracies in percent, a fifth of an image out of 10,000."""

EXAMPLES = {"train": "train", "valid": "x-valid", "test": "x-test", "valtest": "ori-test"}
SETS = {
    "cifar10": {
        "train": ("cifar10-valid", "train"),
        "valid": ("cifar10-valid", "x-valid"),
        "test": ("cifar10", "ori-test"),
    },
    "cifar100": {measure: ("cifar100", examples) for measure, examples in EXAMPLES.items()},
    "imagenet16": {measure: ("ImageNet16-120", examples) for measure, examples in EXAMPLES.items()},
}
"""Data set -> measure -> (runs, examples) in the official files.

On CIFAR-10 a search uses runs on half of the training images and validates on the other half; the test accuracy comes
from runs on all of them. ``valtest`` joins validation and test images; on the other two data sets it alone was measured
after every epoch.
"""
TABLES = tuple(f"{dataset}{ending}" for ending in SCHEDULES.values() for dataset in SETS)
"""The names of the tables: of 200 epochs, then of 12."""


@dataclass(eq=False)
class _Collected:
    """The cells of one data set, trained with one schedule."""

    indices: list[tuple[int, ...]] = field(default_factory=list)
    curves: dict[str, list[NDArray[np.float32]]] = field(default_factory=lambda: defaultdict(list))
    columns: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def convert_nats(source: Path, out: Path, progress: Callable[[int], None] | None = None) -> list[Path]:
    """Writes a `CurveTable` per data set and schedule: ``nats_cifar10.npz`` and, of 12 epochs, ``nats_cifar10_12.npz``.

    Values are means over the runs of a cell. Measures taken after every epoch become curves, and the last value of
    every measure is a column. The accuracy is the last test accuracy.

    Args:
        source: the folder ``NATS-tss-v1_0-3ffb9-simple`` or its tar file.
        out: the common name of the files, ``nats.npz`` above.
        progress: receives the number of cells read so far.
    """
    collected = {name: _Collected() for name in TABLES}
    expected = None
    for name, content in _contents(source):
        try:
            if name.startswith("meta"):
                expected = len(content["meta_archs"])
                continue
            for schedule, ending in SCHEDULES.items():
                for dataset, sets in SETS.items():
                    _collect(content[schedule], sets, collected[f"{dataset}{ending}"])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, InvalidInput) as error:
            found = f"{type(error).__name__} {first_line(error)}"
            raise CorruptFile(f"Expected {name} to be results of NATS-Bench. Found: {found}.") from None
        if progress:
            progress(len(collected["cifar10"].indices))
    cells = len(collected["cifar10"].indices)
    if cells != expected:
        wanted = "a file meta.pickle.pbz2" if expected is None else f"{expected} cells"
        raise CorruptFile(f"Expected {wanted} in {source}. Found {cells} cells.")
    return [_write(name, into, out) for name, into in collected.items()]


def _contents(source: Path) -> Iterator[tuple[str, Any]]:
    """Name and content of every pickle."""
    if not source.exists():
        raise MissingData(f"Expected NATS-Bench at {source}. Found no such file or folder.")
    if source.is_dir():
        for path in sorted(source.glob(f"*{ENDING}")):
            yield path.name, _unpickled(path.name, path.read_bytes())
    elif source.suffix == ".tar":
        try:
            with tarfile.open(source) as archive:
                for member in archive:
                    file = archive.extractfile(member) if member.name.endswith(ENDING) else None
                    if file:
                        yield Path(member.name).name, _unpickled(member.name, file.read())
        except (tarfile.TarError, OSError, EOFError) as error:
            raise CorruptFile(f"Expected {source} to be a tar file. Found: {first_line(error)}.") from None
    else:
        raise InvalidInput(
            f"Expected the folder NATS-tss-v1_0-3ffb9-simple or its tar file. Got {source}; one pickle of all cells "
            "does not fit into memory."
        )


def _unpickled(name: str, data: bytes) -> Any:
    try:
        return _ResultsUnpickler(io.BytesIO(bz2.decompress(data))).load()
    except Exception as error:  # damaged bytes make bzip2 and pickle raise all kinds of errors
        raise CorruptFile(f"Expected {name} to hold results of NATS-Bench. {first_line(error)}.") from None


class _ResultsUnpickler(PlainUnpickler):
    """Also reads ordered dictionaries and numpy scalars; replaces everything of torch by a placeholder."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if name == "scalar" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return _scalar
        if module.split(".")[0] == "torch":
            return _LeftOut
        return super().find_class(module, name)


class _LeftOut:
    """The placeholder of a tensor."""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


def _scalar(kind: PlainType, data: bytes) -> Any:
    return np.frombuffer(data, dtype=kind.dtype, count=1)[0]


def _collect(results: dict[str, Any], sets: dict[str, tuple[str, str]], into: _Collected) -> None:
    """Adds one cell."""
    into.indices.append(parse_nb201(results["arch_str"], nb201_space()).indices)
    for measured, (runs, examples) in sets.items():
        trials = _trials(results, runs)
        for key, kind in (("loss", "losses"), ("accuracy", "acc1es")):
            curves = [_curve(trial, examples, kind) for trial in trials]
            shortest = min(map(len, curves))
            curve = np.mean([values[-shortest:] for values in curves], axis=0)
            into.curves[f"{measured}_{key}"].append(curve.astype(np.float32))
            into.columns[f"{measured}_{key}"].append(float(curve[-1]))
    searched = _trials(results, sets["train"][0])
    costs = {
        "params_millions": [trial["params"] for trial in searched],
        "flops_millions": [trial["flop"] for trial in searched],
        "latency_seconds": [np.mean(trial["latency"]) if trial["latency"] else np.nan for trial in searched],
        "train_seconds": [sum((trial["train_times"] or {0: np.nan}).values()) for trial in searched],
    }
    for key, values in costs.items():
        into.columns[key].append(float(np.mean(values)))


def _trials(results: dict[str, Any], runs: str) -> list[dict[str, Any]]:
    return [results["all_results"][runs, seed] for seed in results["dataset_seed"][runs]]


def _curve(trial: dict[str, Any], examples: str, kind: str) -> NDArray[np.float64]:
    """One run: (epochs,), or (1,) if it was measured only at the end."""
    epochs = trial["epochs"]
    if examples == "train":
        values = [trial[f"train_{kind}"][epoch] for epoch in range(epochs)]
    else:
        measured = trial[f"eval_{kind}"]
        keys = [f"{examples}@{epoch}" for epoch in range(epochs)]
        whole = all(key in measured for key in keys)
        values = [measured[key] for key in (keys if whole else keys[-1:])]
    return np.array(values, dtype=np.float64)


def _write(name: str, collected: _Collected, out: Path) -> Path:
    curves = {}
    for measure, rows in collected.curves.items():
        if min(map(len, rows)) == max(map(len, collected.curves["train_loss"])):
            values = np.stack(rows)
            values[np.logical_or.accumulate(np.isnan(values), axis=1)] = np.nan  # a diverged run ends there
            packed = measure.endswith("accuracy")
            curves[measure] = Curves.packed(values, ACCURACY_STEP) if packed else Curves.plain(values)
    accuracies = collected.columns["test_accuracy"]
    table = CurveTable(f"nats-{name}", nb201_space(), collected.indices, accuracies, curves, collected.columns)
    path = out.with_name(f"{out.stem}_{name}.npz")
    table.save(path)
    return path
