"""What made-up runs of `wiring_consistency` say."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from made_up_runs import DATA, Changes, MadeUp, Run, named, panels, require_same_form

from polyarch.plugins import EXPERIMENTS
from polyarch_experiments.stochastic.wiring_consistency import chosen

CONSISTENCY = EXPERIMENTS["wiring_consistency"]


def few_labels(valid: float, accuracy: float, steps: int = 12_000) -> Run:
    ensemble = {
        "mean_log_p": -0.5, "mean_p": 0.7, "accuracy": accuracy, "calibration_error": 0.1, "calibration_floor": 0.02,
        "calibration_low": 0.08, "calibration_high": 0.12, "brier": 0.1, "risk_area": 0.1,
    }  # fmt: skip
    curve = (0.5, 0.6, valid)
    return {"valid": valid, "curve": curve, "one": accuracy - 0.01, "ensemble": ensemble, "labels": 400, "steps": steps}


CONSISTENCY_RUNS = {
    "supervised": few_labels(0.80, 0.80),
    "nsa-id": few_labels(0.81, 0.81),
    "pi 2": few_labels(0.84, 0.83),
    "pi 20": few_labels(0.82, 0.85),
    "wirings 2": few_labels(0.85, 0.80),
    "wirings 20": few_labels(0.87, 0.86),
}
"""As the document has it."""
CONSISTENCY_MADE_UP = MadeUp(
    CONSISTENCY, {"data": DATA, "seeds": 2, "labels": 400, "weights": [2.0, 20.0], "curve_every": 5}, CONSISTENCY_RUNS
)


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, []),
        ({"cifar10, supervised": {"ensemble.accuracy": 0.87}}, [0]),
        ({"cifar10, pi 2": {"ensemble.accuracy": 0.87}}, [1]),
        ({"cifar10, pi 2": {"ensemble.accuracy": [0.87, 0.84]}}, [1]),  # better in the mean, but the interval is wide
        ({"cifar10, pi 20": {"ensemble.accuracy": 0.90}}, []),  # the weight is chosen by validation, not by test
        ({"cifar10, pi 20": {"ensemble.accuracy": 0.90, "valid": 0.90}}, [1]),
        ({"cifar10, wirings 2": {"valid": 0.90}}, [0, 1]),
        ({"cifar10, wirings 20": {"one": 0.1}}, []),  # ensembles are judged
    ],
)
def test_verdicts_on_few_labels(changes: Changes, failing: list[int]) -> None:
    assert CONSISTENCY_MADE_UP.failing(changes) == failing


def test_few_steps_never_fail_a_claim() -> None:
    changes: Changes = {"cifar10, supervised": {"ensemble.accuracy": 0.9, "steps": 1200}}
    assert CONSISTENCY_MADE_UP.claims({"cifar10, supervised": {"ensemble.accuracy": 0.9}})[0].supported is False
    first, _ = CONSISTENCY_MADE_UP.claims(changes)
    assert first.supported is None and first.needs == "10,000 steps or more"


def test_a_part_of_the_results_is_judged_as_far_as_it_goes() -> None:
    runs = {name: run for name, run in CONSISTENCY_MADE_UP.runs({}).items() if name.startswith("fashion_mnist, superv")}
    claims = CONSISTENCY.judge(CONSISTENCY_MADE_UP.settings, runs)
    assert len(claims) == 2 and all(claim.supported is None for claim in claims)
    assert CONSISTENCY.tables(CONSISTENCY_MADE_UP.settings, runs)


def test_the_weight_chosen_by_validation() -> None:
    changes = {"cifar10, pi 2": {"valid": [0.9, 0.7]}, "cifar10, pi 20": {"valid": [0.75, 0.86]}}  # 0.8 and 0.805
    settings, runs = CONSISTENCY_MADE_UP.settings, CONSISTENCY_MADE_UP.runs(changes)
    assert chosen(settings, runs, "cifar10", "pi") == "pi 20"
    assert chosen(settings, runs, "fashion_mnist", "pi") == "pi 2"
    assert chosen(settings, runs, "fashion_mnist", "wirings") == "wirings 20"
    assert chosen(settings, runs, "fashion_mnist", "nsa-id") == "nsa-id"
    assert chosen(settings, {}, "fashion_mnist", "pi") is None


def test_numbers_tables_and_figures_of_few_labels() -> None:
    changes = {"cifar10, supervised": {"ensemble.accuracy": [0.79, 0.81]}}
    first, second = CONSISTENCY_MADE_UP.claims(changes)
    assert first.number == second.number == 6
    for one in (first, second):
        assert "CIFAR-10, labels only: 80.00 +- 1.41 %" in one.numbers and "12,000 steps" in one.numbers
    table = named(CONSISTENCY_MADE_UP.tables(changes), "Accuracy with 400 labels")
    assert len(table.rows) == 2 * 6
    values = ["84.00 +- 0.00", "82.00 +- 0.00", "83.00 +- 0.00", "-0.500 +- 0.000"]
    assert ["Fashion-MNIST", "pi 2", *values] in table.rows
    figures = CONSISTENCY_MADE_UP.figures(changes)
    curves = panels(figures["consistency_curves"])
    assert [len(rows) for rows in curves] == [6 * 3] * 2
    assert [(row["x"], row["mean"]) for row in curves[0][:3]] == [
        (1, pytest.approx(50)),
        (6, pytest.approx(60)),
        (11, pytest.approx(80)),
    ]
    (ends,) = panels(figures["consistency_accuracy"])
    assert sorted(row["mean"] for row in ends[:6]) == pytest.approx([80, 80, 81, 83, 85, 86])
    assert ends[6]["high"] - ends[6]["low"] == pytest.approx(2 * math.sqrt(2))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["wirings 2"])
def test_made_up_runs_have_the_form_of_real_ones(method: str, tmp_path: Path) -> None:
    require_same_form(CONSISTENCY, CONSISTENCY_RUNS[method], f"digits, {method} seed 0", tmp_path)
