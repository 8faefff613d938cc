"""NAS-Bench-101: 423,624 cells on CIFAR-10, for the architectures of the NAS-Bench-1shot1 spaces.

Ying et al. (2019), "NAS-Bench-101: Towards Reproducible Neural Architecture Search", arXiv:1902.09635. Zela, Siems and
Hutter (2020), "NAS-Bench-1Shot1: Benchmarking and Dissecting One-shot Neural Architecture Search", arXiv:2001.10422.
"""

import base64
import json
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.data.locations import data_root
from polyarch.errors import CorruptFile, InvalidInput, MissingData, UnknownName, first_line
from polyarch.spaces import Architecture
from polyarch.spaces.nb101 import nb101_canonical, nb101_space
from polyarch.tables.curve_table import reading_arrays, write_arrays
from polyarch.tables.tfrecords import read_fields, read_records
from polyarch.tables.truth import Truth

CELLS = 423_624
BUDGETS = (4, 12, 36, 108)
"""Epochs of training; every cell was trained three times with each budget."""
ACCURACIES = ("train_accuracy", "valid_accuracy", "test_accuracy")
VALUES = ("train_seconds", *ACCURACIES)
"""Fields 2 to 5 of an evaluation in the official file."""


class NASBench101(Truth):
    """Mean accuracies in percent of cells that were trained three times with each of up to four budgets.

    Each budget is a separate training whose learning rate ends at zero; a curve has one value per budget. The benchmark
    has every cell of at most seven nodes and nine edges, so the complete file knows every member of the spaces.

    Args:
        space: 1, 2 or 3, the space of NAS-Bench-1shot1.
        hashes: the benchmark's hashes, sorted, (n, 16) bytes.
        epochs: the budgets, ascending.
        values: one of `ACCURACIES` -> (n, budgets).
        measure: the measure of ``accuracy``, after the largest budget.
    """

    def __init__(
        self,
        space: int,
        hashes: NDArray[np.uint8],
        epochs: Sequence[int],
        values: dict[str, NDArray[np.float32]],
        measure: str = "test_accuracy",
    ) -> None:
        shape = (len(hashes), len(epochs))
        if hashes.shape[1:] != (16,) or any(values[key].shape != shape for key in ACCURACIES):
            raise InvalidInput(f"Expected hashes and {', '.join(ACCURACIES)} of {shape[0]} cells. Got other shapes.")
        self.name = "nb101" if measure == "test_accuracy" else f"nb101:{measure}"
        self.space = nb101_space(space)
        self.epochs = tuple(epochs)
        self.measure = measure
        self._hashes = np.ascontiguousarray(hashes).view("S16").ravel()
        if (self._hashes[1:] <= self._hashes[:-1]).any():
            raise InvalidInput("Expected sorted hashes of NAS-Bench-101. Got another order.")
        self._values = values

    @classmethod
    def load(cls, path: Path | None = None, space: int = 3, measure: str = "test_accuracy") -> "NASBench101":
        """Loads what `convert_nasbench101` wrote, by default ``nas_bench_101/nb101.npz`` in the data folder."""
        path = path or data_root() / "nas_bench_101" / "nb101.npz"
        if not path.is_file():
            raise MissingData(
                f"Expected NAS-Bench-101 at {path}. Found no such file; POLYARCH_DATA names the data folder, and "
                f"`polyarch truth convert nb101 nasbench_only108.tfrecord --out {path}` makes it from the official "
                "file (storage.googleapis.com/nasbench/nasbench_only108.tfrecord, or nasbench_full.tfrecord)."
            )
        if measure not in ACCURACIES:
            raise UnknownName("measure of NAS-Bench-101", measure, ACCURACIES)
        with reading_arrays(path, "a converted NAS-Bench-101") as arrays:
            values = {key: arrays[key] for key in ACCURACIES}
            return cls(space, arrays["hashes"], arrays["epochs"].tolist(), values, measure)

    @property
    def measures(self) -> tuple[str, ...]:
        """All accuracies, if there is more than one budget."""
        return ACCURACIES if len(self.epochs) > 1 else ()

    def accuracy(self, architecture: Architecture) -> float:
        """The mean of three runs with the largest budget."""
        return float(self._values[self.measure][self._row(architecture), -1])

    def _curve(self, architecture: Architecture, measure: str) -> NDArray[np.float64]:
        return np.asarray(self._values[measure][self._row(architecture)], dtype=np.float64)

    def _row(self, architecture: Architecture) -> int:
        row = self._find(architecture)
        if row is None:
            raise self.unknown(architecture)
        return row

    def _find(self, architecture: Architecture) -> int | None:
        if architecture.space.choice_names != self.space.choice_names:
            return None
        word = np.bytes_(bytes.fromhex(nb101_canonical(architecture)))
        position = int(np.searchsorted(self._hashes, word))
        found = position < len(self._hashes) and self._hashes[position] == word
        return position if found else None

    def __contains__(self, architecture: object) -> bool:
        return isinstance(architecture, Architecture) and self._find(architecture) is not None

    def __len__(self) -> int:
        return self.space.size if len(self._hashes) == CELLS else len(self.architectures())

    def architectures(self) -> Sequence[Architecture]:
        """The members of the space whose cell is in the table."""
        return self.space.members if len(self._hashes) == CELLS else self._found

    @cached_property
    def _found(self) -> tuple[Architecture, ...]:
        return tuple(architecture for architecture in self.space.members if architecture in self)


def convert_nasbench101(source: Path, out: Path, progress: Callable[[int], None] | None = None) -> None:
    """Writes the means over the runs of ``nasbench_only108.tfrecord`` or ``nasbench_full.tfrecord`` to an npz file.

    Records are JSON: hash, epochs, matrix, operations, and evaluations as a protocol buffer in base64. ``progress``
    receives the number of runs read so far.
    """
    if not source.is_file():
        raise MissingData(f"Expected NAS-Bench-101 at {source}. Found no such file.")
    rows: dict[bytes, int] = {}
    sums = np.zeros((1, len(BUDGETS), len(VALUES)))
    counts = np.zeros((1, len(BUDGETS)))
    params: list[int] = []
    for number, record in enumerate(read_records(source), start=1):
        try:
            digest, epochs, _, _, metrics = json.loads(record)
            budget = BUDGETS.index(epochs)
            key = bytes.fromhex(digest)
            if len(key) != 16:
                raise ValueError(f"a hash of {len(key)} bytes")
            parameters, final = _last_evaluation(base64.b64decode(metrics, validate=True))
        except (ValueError, TypeError, KeyError, RecursionError, struct.error) as error:
            raise CorruptFile(
                f"Expected record {number} of {source} to be a run of NAS-Bench-101. Found: {first_line(error)}."
            ) from None
        row = rows.setdefault(key, len(rows))
        if row == len(params):
            params.append(parameters)
            if row == len(sums):
                sums, counts = (np.concatenate([array, np.zeros_like(array)]) for array in (sums, counts))
        sums[row, budget] += final
        counts[row, budget] += 1
        if progress and number % 10_000 == 0:
            progress(number)
    _write(out, rows, sums[: len(rows)], counts[: len(rows)], params, source)


def _last_evaluation(metrics: bytes) -> tuple[int, list[float]]:
    """The parameters, and the seconds and accuracies (percent) at the end of training.

    ``ModelMetrics``: 1 evaluations (before training, halfway, at the end), 2 trainable parameters.
    ``EvaluationData``: 2 seconds of training, 3, 4 and 5 accuracies on training, validation and test images, in [0, 1].
    """
    fields = list(read_fields(metrics))
    evaluations = [value for number, value in fields if number == 1 and isinstance(value, bytes)]
    if len(evaluations) != 3:
        raise ValueError(f"{len(evaluations)} evaluations, not 3")
    final = dict(read_fields(evaluations[-1]))
    seconds, *accuracies = (final[number] for number in (2, 3, 4, 5))
    if not all(isinstance(value, float) and 0 <= value <= 1 for value in accuracies) or not isinstance(seconds, float):
        raise ValueError("an accuracy outside of [0, 1]")
    parameters = dict(fields)[2]
    if not isinstance(parameters, int) or parameters >= 1 << 31:
        raise ValueError("no number of parameters")
    return parameters, [seconds, *(100 * float(value) for value in accuracies)]


def _write(
    out: Path,
    rows: dict[bytes, int],
    sums: NDArray[np.float64],
    counts: NDArray[np.float64],
    params: list[int],
    source: Path,
) -> None:
    present = counts.any(axis=0)
    if not rows or (counts[:, present] == 0).any():
        raise CorruptFile(
            f"Expected {source} to have every cell with every budget. Found {len(rows)} cells, some incomplete."
        )
    hashes = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), 16)
    order = np.argsort(np.ascontiguousarray(hashes).view("S16").ravel())
    means = (sums[:, present] / counts[:, present, None])[order]
    arrays: dict[str, NDArray[Any]] = {
        "hashes": hashes[order],
        "epochs": np.array(BUDGETS)[present],
        "params": np.array(params, dtype=np.int32)[order],
        **{key: means[..., position].astype(np.float32) for position, key in enumerate(VALUES)},
    }
    write_arrays(out, arrays)
