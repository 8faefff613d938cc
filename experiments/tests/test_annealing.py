"""The experiment on fast annealing: verdicts on curves made by hand, and cells that are trained here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from polyarch.tables import CurveTable
from polyarch_experiments.training_speed.annealing import ANNEALING, figures, judge, paired, run, spearman, tables

SETTINGS: dict[str, Any] = {"long": {"epochs": 5}, "short": {"epochs": 3}}


def made(long: tuple[float, float], short: tuple[float, float], n: int = 200) -> dict[str, Any]:
    """Runs of n cells whose losses and accuracies tell the truth with so much noise, by schedule."""
    generator = np.random.default_rng(0)
    truth = generator.normal(size=n)

    def cells(noises: tuple[float, float], epochs: int, accuracies: Any) -> dict[str, Any]:
        losses, valid = (truth[:, None] + noise * generator.normal(size=(n, epochs)) for noise in noises)
        return {
            f"cell {row}": {
                "accuracy": accuracies[row], "losses": (-losses[row]).tolist(), "valid_accuracies": valid[row].tolist(),
            }
            for row in range(n)
        }  # fmt: skip

    return {"long": {"cells": cells(long, 5, truth)}, "short": {"cells": cells(short, 3, generator.normal(size=n))}}


@pytest.mark.parametrize(
    ("long", "short", "verdicts"),
    [
        ((0.3, 2.0), (0.5, 0.5), [True, True, True]),
        ((0.5, 0.5), (0.3, 2.0), [None, False, False]),
        ((2.0, 0.3), (2.0, 0.3), [False, None, None]),
        ((0.3, 2.0), (0.3, 2.0), [True, None, None]),
    ],
)
def test_verdicts(long: tuple[float, float], short: tuple[float, float], verdicts: list[bool | None]) -> None:
    """SoTL with the noise of the first number, validation accuracy with that of the second."""
    assert [claim.supported for claim in judge(SETTINGS, made(long, short))] == verdicts


def test_the_truth_is_that_of_the_long_schedule() -> None:
    runs = made((0.3, 2.0), (0.5, 0.5), n=30)
    del runs["short"]["cells"]["cell 7"]  # diverged
    truth, predictions = paired(runs)
    assert truth.tolist() == [cell["accuracy"] for key, cell in runs["long"]["cells"].items() if key != "cell 7"]
    assert predictions["long"]["SoTL"].shape == (29, 5) and predictions["short"]["ValAcc"].shape == (29, 3)
    for schedule, both in predictions.items():
        for name, key, sign in (("SoTL", "losses", -1), ("ValAcc", "valid_accuracies", 1)):
            cells = [cell for number, cell in runs[schedule]["cells"].items() if number != "cell 7"]
            expected = [
                stats.spearmanr([sign * cell[key][t] for cell in cells], truth).statistic
                for t in range(both[name].shape[1])
            ]
            assert spearman(both[name], truth) == pytest.approx(expected)
    assert spearman(np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 2.0]]), np.arange(3.0)).tolist() == [
        0, pytest.approx(stats.spearmanr([1, 2, 2], [0, 1, 2]).statistic),
    ]  # fmt: skip
    (table,) = tables(SETTINGS, runs).values()
    assert [row[:2] for row in table.rows] == [
        ["5 epochs", "SoTL"], ["5 epochs", "ValAcc"], ["3 epochs", "SoTL"], ["3 epochs", "ValAcc"],
    ]  # fmt: skip
    assert table.columns == ["schedule", "", "1", "2", "3"] and {len(row) for row in table.rows} == {5}
    panels = figures(SETTINGS, runs)["annealing"]["concat"]
    assert [len(panel["data"]["values"]) for panel in panels] == [10, 6]


def test_cells_that_are_trained_here(tmp_path: Path) -> None:
    """Both schedules train the same cells; a truth that is there is not built again."""
    quick = ANNEALING.presets["quick"]
    described = {**quick["run"], "data": {"name": "digits", "limit": 64}, "truth": {"architectures": 3}}
    settings = {**quick, "long": {"curves": "own", "epochs": 2}, "short": {"curves": "own", "epochs": 1}}
    settings |= {"cells": 3, "run": described}
    runs = {schedule: run(settings, schedule, tmp_path) for schedule in ("long", "short")}
    assert set(runs["long"]["cells"]) == set(runs["short"]["cells"]) and len(runs["long"]["cells"]) == 3
    assert {len(cell["losses"]) for cell in runs["long"]["cells"].values()} == {2}
    table = CurveTable.load(tmp_path / "long" / "truth.npz")
    for architecture in table.architectures():
        cell = runs["long"]["cells"][architecture.key]
        assert cell["accuracy"] == pytest.approx(table.accuracy(architecture), abs=1e-3)
        assert cell["losses"] == pytest.approx(table.curve(architecture, "train_loss").tolist(), abs=1e-3)
    written = (tmp_path / "long" / "checkpoints" / "truth.jsonl").read_bytes()
    assert run(settings, "long", tmp_path) == runs["long"]
    assert (tmp_path / "long" / "checkpoints" / "truth.jsonl").read_bytes() == written
