"""What made-up runs of `guided_limits` say."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import DATA, Changes, MadeUp, Run, copied, named, panels

from polyarch.plugins import EXPERIMENTS
from polyarch_experiments.experiment import Settings

LIMITS = EXPERIMENTS["guided_limits"]
NOISE = ("calibration_floor", "calibration_low", "calibration_high")
MEASURES = ("mean_log_p", "mean_p", "accuracy", "calibration_error", *NOISE, "brier", "risk_area")


def drawn(accuracy: float) -> Run:
    return {
        "test": {**dict.fromkeys(MEASURES, 0.05), "accuracy": accuracy},
        "valid_accuracy": accuracy,
        "mean_accuracy": accuracy - 0.05,
        "cost": {"parameters": 9000, "macs": 5e5},
        "dropped_channels": 0.7,
        "dropped_operations": 0.4,
    }


def found(accuracy: float, strength: float) -> Run:
    return {
        "keep_rate": 0.5,
        "strength": strength,
        "full_parameters": 100_000,
        "drawn": drawn(accuracy),
        "flat": drawn(0.2),
        "reestimated": accuracy + 0.01,
        "tuned": {**dict.fromkeys(MEASURES, 0.05), "accuracy": accuracy + 0.1},
    }


SETTINGS: Settings = {"data": DATA, "seeds": 2, "family": "MI", "share": 0.1, "prior_examples": 500_000}
MADE_UP = MadeUp(LIMITS, SETTINGS, {"after": found(0.5, 30.0), "during": found(0.6, 0.0)})


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, []),
        ({"cifar10, after": {"drawn.test.accuracy": 0.6}}, [0]),  # equal is not better
        ({"fashion_mnist, during": {"drawn.test.accuracy": [0.55, 0.65]}}, [0]),  # a wide interval decides nothing
        ({"cifar10, during": {"tuned.accuracy": 0.55}}, [1]),
        ({"cifar10, during": {"flat.test.accuracy": 0.9, "reestimated": 0.1}}, []),
    ],
)
def test_verdicts(changes: Changes, failing: list[int]) -> None:
    assert MADE_UP.failing(changes) == failing


def test_numbers_tables_and_figures() -> None:
    drawn, tuned = MADE_UP.claims({})
    assert (
        "at most 10%" in drawn.text and "CIFAR-10: 50.00 +- 0.00 % (after), 40.00 +- 0.00 % (during)" in drawn.numbers
    )
    assert "Fashion-MNIST: 40.00 +- 0.00 % (after), 30.00 +- 0.00 % (during)" in tuned.numbers
    assert drawn.document == tuned.document == "not in the paper"
    table = named(MADE_UP.tables({}), "Test error")
    assert len(table.rows) == 4
    errors = [f"{value}.00 +- 0.00" for value in (40, 39, 30, 80)]
    assert table.rows[1] == [
        "Fashion-MNIST", "limit while training", *errors, "9.0 +- 0.0", "0.50 +- 0.00", "50.0 +- 0.0",
    ]  # fmt: skip
    (bars,) = MADE_UP.figures({}).values()
    assert [[row["mean"] for row in rows] for rows in panels(bars)] == [pytest.approx([50, 40, 49, 39, 40, 30])] * 2


@pytest.mark.slow
def test_a_real_run(tmp_path: Path) -> None:
    """It has the form of the made-up ones; draws keep the limit in both ways, and one has it in the posterior."""
    settings = {**LIMITS.presets["quick"], "train": 60, "valid": 20, "test": 30, "width": 2, "batch_size": 20}
    runs = {when: LIMITS.task(settings, (f"digits, {when}", 0), tmp_path) for when in ("after", "during")}
    for run in runs.values():
        assert list(run) == list(MADE_UP.methods["after"])
        assert run["drawn"].keys() == drawn(0.5).keys() == run["flat"].keys()
        assert max(run["drawn"]["cost"]["parameters"], run["flat"]["cost"]["parameters"]) <= (
            settings["share"] * run["full_parameters"]
        )
    assert runs["during"]["keep_rate"] < runs["after"]["keep_rate"]
    assert runs["during"]["strength"] == 0 < runs["after"]["strength"]
    named_runs = {f"digits, {when} seed 0": copied(run) for when, run in runs.items()}
    assert len(LIMITS.judge(settings, named_runs)) == 2 and len(LIMITS.tables(settings, named_runs)) == 1
