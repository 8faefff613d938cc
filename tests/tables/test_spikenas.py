"""SpikeNAS-Bench: counts, extremes and rank correlations of its authors' data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from polyarch.errors import CorruptFile, MissingData
from polyarch.tables import CurveTable, load_spikenas
from polyarch.tables.curve_table import write_arrays
from polyarch.tables.spikenas import MEASURES, spikenas_space
from polyarch.testing import TruthContract


@pytest.fixture(scope="module")
def spikenas_path(data_root: Path) -> Path:
    path = data_root / "spikenas_bench" / "spikenas_cifar10.npz"
    if not path.is_file():
        pytest.skip(f"needs SpikeNAS-Bench: {path} is not there")
    return path


@pytest.fixture(scope="module")
def spikenas(spikenas_path: Path) -> CurveTable:
    return load_spikenas(spikenas_path)


class TestSpikeNAS(TruthContract):
    @pytest.fixture(autouse=True)
    def _loaded(self, spikenas: CurveTable) -> None:
        self.table = spikenas

    def make_truth(self) -> CurveTable:
        return self.table


def test_extremes(spikenas: CurveTable) -> None:
    members = spikenas.architectures()
    accuracies = np.array([spikenas.accuracy(member) for member in members])
    assert len(members) == 15625
    assert (accuracies.max(), accuracies.min(), np.median(accuracies)) == pytest.approx((89.30, 10.00, 87.24), abs=1e-4)
    assert accuracies.argmax() == 12617
    assert members[12617].names == ("conv_low", "conv_middle", "conv_high", "zero", "zero", "conv_high")


def test_summed_training_losses_rank_as_published(spikenas: CurveTable) -> None:
    members = [member for member in spikenas.architectures() if spikenas.value(member, "epochs") == 100]
    losses = np.array([spikenas.curve(member, "train_loss") for member in members])
    accuracies = [spikenas.accuracy(member) for member in members]
    assert losses.shape == (14935, 100)
    for epochs, expected in ((1, 0.389), (10, 0.632), (20, 0.750), (50, 0.854)):
        correlation = spearmanr(-losses[:, :epochs].sum(axis=1), accuracies).statistic
        assert correlation == pytest.approx(expected, abs=5e-4)


def test_curves_are_those_of_the_file(spikenas: CurveTable, spikenas_path: Path) -> None:
    members = spikenas.architectures()
    with np.load(spikenas_path) as arrays:
        for measure, (name, _) in MEASURES.items():
            for epochs, rows in ((100, (0, 7000, 14934)), (200, (0, 689))):
                ids, stored = arrays[f"ids_{epochs}"], arrays[f"{name}_milli_{epochs}"]
                for row in rows:
                    curve = spikenas.curve(members[ids[row]], measure)
                    np.testing.assert_allclose(curve, stored[row] / 1000, rtol=0, atol=1e-9)


def test_memory(spikenas: CurveTable) -> None:
    assert sum(curves.values.nbytes for curves in spikenas._curves.values()) == 4 * 15625 * 200 * 2


def small_file(path: Path, **changed: object) -> None:
    """Three cells, one of them with a run of 200 epochs."""
    arrays = {
        "edge_ops": np.array([[0] * 6, [1, 2, 3, 4, 0, 1], [4] * 6], dtype=np.uint8),
        "params": np.array([1, 2, 3]),
        "test_acc": np.array([10.0, 80.0, 89.3], dtype=np.float32),
        "train_seconds": np.array([1.0, 2.0, 3.0]),
        "n_epochs": np.array([100, 200, 100], dtype=np.int16),
        "ids_100": np.array([0, 2]),
        "ids_200": np.array([1]),
    }
    for name, _ in MEASURES.values():
        arrays[f"{name}_milli_100"] = np.arange(200).reshape(2, 100) * 2
        arrays[f"{name}_milli_200"] = np.arange(200).reshape(1, 200) * 4
    write_arrays(path, {**arrays, **{key: np.asarray(value) for key, value in changed.items()}})


def test_runs_of_two_lengths(tmp_path: Path) -> None:
    small_file(tmp_path / "small.npz")
    table = load_spikenas(tmp_path / "small.npz")
    first, second, third = table.architectures()
    assert second == spikenas_space().architecture(["skip", "conv_low", "conv_middle", "conv_high", "zero", "skip"])
    assert [len(table.curve(member)) for member in (first, second, third)] == [100, 200, 100]
    assert table.curve(third, "train_loss")[[0, -1]].tolist() == pytest.approx([0.2, 0.398])
    assert table.curve(second, "train_accuracy")[-1] == pytest.approx(0.796)


def test_absent_and_damaged(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    with pytest.raises(MissingData, match=r"github\.com/tju-sun-lab/SpikeNAS-Bench"):
        load_spikenas(path)
    small_file(path, edge_ops=np.full((3, 6), 5))
    with pytest.raises(CorruptFile, match=r"to be SpikeNAS-Bench\. Found: Expected option indices"):
        load_spikenas(path)
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(CorruptFile, match="to be SpikeNAS-Bench"):
        load_spikenas(path)
