"""SpikeNAS-Bench: learning curves of 15,625 spiking cells on CIFAR-10.

Sun et al. (2025), "SpikeNAS-Bench", IEEE Transactions on Artificial Intelligence.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.data.locations import data_root
from polyarch.errors import MissingData
from polyarch.spaces import Choice, Space, edge_name
from polyarch.tables.curve_table import CurveTable, reading_arrays
from polyarch.tables.curves import MISSING, Curves

SPIKENAS_OPERATIONS = ("zero", "skip", "conv_low", "conv_middle", "conv_high")
"""Convolutions are 3x3, followed by neurons with a low, medium or high threshold."""
SPIKENAS_EDGES = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))

MEASURES = {
    "train_loss": ("train_loss", 0.001),
    "train_accuracy": ("train_acc", 0.002),  # 100 % would exceed 65535 thousandths, and all values are even
    "valid_loss": ("val_loss", 0.001),
    "valid_accuracy": ("val_acc", 0.002),
}
"""Measure -> its name in the file, where values are thousandths, and the step of its packed curves."""


def spikenas_space() -> Space:
    """One of five operations on each of the six edges of a cell with four nodes: 15,625 cells."""
    return Space("spikenas", tuple(Choice(edge_name(*edge), SPIKENAS_OPERATIONS) for edge in SPIKENAS_EDGES))


def load_spikenas(path: Path | None = None) -> CurveTable:
    """Loads ``spikenas_bench/spikenas_cifar10.npz`` from the data folder, or the given file.

    14,935 runs have 100 epochs and 690 have 200. The accuracy is the final test accuracy; the columns are ``params``,
    ``train_seconds`` and ``epochs``.
    """
    path = path or data_root() / "spikenas_bench" / "spikenas_cifar10.npz"
    if not path.is_file():
        raise MissingData(
            f"Expected SpikeNAS-Bench at {path}. Found no such file; POLYARCH_DATA names the data folder, and the "
            "curves are those of data/CIFAR10 in github.com/tju-sun-lab/SpikeNAS-Bench."
        )
    with reading_arrays(path, "SpikeNAS-Bench") as arrays:
        columns = {"params": arrays["params"], "train_seconds": arrays["train_seconds"], "epochs": arrays["n_epochs"]}
        curves = {measure: _curves(arrays, *stored) for measure, stored in MEASURES.items()}
        return CurveTable("spikenas", spikenas_space(), arrays["edge_ops"], arrays["test_acc"], curves, columns)


def _curves(arrays: Mapping[str, NDArray[Any]], name: str, step: float) -> Curves:
    """Combines the runs of 100 and 200 epochs: (15625, 200)."""
    lengths = arrays["n_epochs"]
    counts = np.full((len(lengths), int(lengths.max())), MISSING, dtype=np.uint16)
    for epochs in (100, 200):
        counts[arrays[f"ids_{epochs}"], :epochs] = np.rint(arrays[f"{name}_milli_{epochs}"] / (1000 * step))
    return Curves(counts, step)
