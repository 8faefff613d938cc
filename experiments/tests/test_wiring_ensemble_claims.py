"""What made-up runs of `wiring_ensemble` say."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import DATA, Changes, MadeUp, Run, named, panels, require_same_form

from polyarch.plugins import EXPERIMENTS
from polyarch_experiments.experiment import Settings
from polyarch_experiments.stochastic.wiring_ensemble_claims import best_dropout, on_common_seeds

ENSEMBLE = EXPERIMENTS["wiring_ensemble"]
ATTACKS = ["1-2-1", "2-3-1", "3-4-1"]


def mixture(accuracy: float, error: float = 0.02, *, members: int = 5, alone: float = 0.88, auroc: float = 0.9) -> Run:
    """A run of a method with these measures.

    Args:
        alone: the mean accuracy of its members.
        auroc: of mutual information for foreign images; of entropy it is 0.6, for corrupted images 0.7.
    """
    detection = {"auroc": 0.6, "aupr": 0.5, "fpr95": 0.4}
    measured = {
        "mean_log_p": -0.3, "mean_p": 0.8, "accuracy": accuracy, "calibration_error": error, "brier": 0.1,
        "risk_area": 0.05,
    }  # fmt: skip
    scored = {"entropy": detection, "max_probability": detection}
    foreign, corrupted, attacked = (
        {**scored, "mutual_information": {**detection, "auroc": value}} if members > 1 else scored
        for value in (auroc, 0.7, 0.65)
    )
    found: Run = {
        "members": members,
        "macs": {"one": 1e6, "all": members * 1e6},
        "temperature": 1.5,
        "test": measured,
        "scaled": {**measured, "mean_log_p": -0.25, "calibration_error": 0.01},
        "alone": {**measured, "accuracy": alone},
        "sizes": tuple(accuracy - 0.01 * missing for missing in reversed(range(min(members, 5)))),
        "detection": {
            **dict.fromkeys(("mnist", "fashion_mnist"), foreign),
            **dict.fromkeys(("gaussian_noise", "contrast"), corrupted),
        },
        "attacks": {name: {"accuracy": 0.4, **attacked} for name in ATTACKS},
    }
    if 1 < members <= 5:
        found["weighted"] = {
            "posterior": {**measured, "mean_log_p": -0.4, "weights": (0.2,) * 5},
            "stacked": {**measured, "mean_log_p": -0.29, "weights": (0.2,) * 5},
        }
    return found


ENSEMBLE_RUNS = {
    "residual": mixture(0.88, 0.05, members=1),
    "dropout 0.1": mixture(0.87, 0.04, members=30, auroc=0.85),
    "dropout 0.3": mixture(0.86, 0.06, members=30, auroc=0.80),
    "alone": mixture(0.92, alone=0.885),
    "nsa-i": mixture(0.89),
    "nsa-id": mixture(0.90, auroc=0.95),
}
"""As the document has it."""
ENSEMBLE_SETTINGS: Settings = {
    "data": DATA,
    "seeds": {"residual": 3, "dropout 0.1": 3, "dropout 0.3": 2, "alone": 2, "nsa-i": 2, "nsa-id": 3},
    "outside": {"fashion_mnist": ["mnist"], "cifar10": ["fashion_mnist"]},
    "attacks": ATTACKS,
    "wirings": 5,
}
ENSEMBLE_MADE_UP = MadeUp(ENSEMBLE, ENSEMBLE_SETTINGS, ENSEMBLE_RUNS)


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, []),
        ({"cifar10, residual": {"test.accuracy": 0.905}}, [0]),
        ({"cifar10, residual": {"test.accuracy": [0.95, 0.85, 0.85]}}, []),  # by the mean over seeds
        ({"fashion_mnist, residual": {"test.calibration_error": 0.01}}, [1]),
        ({"fashion_mnist, residual": {"scaled.calibration_error": 0.0}}, []),
        ({"cifar10, dropout 0.1": {"test.accuracy": 0.91}}, [2]),
        ({"cifar10, dropout 0.3": {"test.accuracy": 0.91}}, [2]),  # the better rate counts
        ({"cifar10, dropout 0.1": {"test.calibration_error": 0.01}}, [3]),
        ({"cifar10, dropout 0.3": {"test.calibration_error": 0.01}}, [3]),  # the rate that is better calibrated
        ({"cifar10, nsa-id": {"test.accuracy": 0.87}}, [0, 2, 4]),  # equal to dropout is not better
        ({"cifar10, alone": {"test.accuracy": 0.895}}, [4]),
        ({"fashion_mnist, alone": {"alone.accuracy": 0.905}}, [4]),
        ({"fashion_mnist, nsa-id": {"alone.accuracy": 0.95}}, []),
        ({"fashion_mnist, dropout 0.1": {"detection.mnist.mutual_information.auroc": 0.96}}, [5]),
        ({"cifar10, nsa-id": {"detection.fashion_mnist.mutual_information.auroc": 0.84}}, [5]),
        ({"fashion_mnist, dropout 0.1": {"detection.mnist.entropy.auroc": 0.99}}, []),
        ({"cifar10, dropout 0.3": {"detection.fashion_mnist.mutual_information.auroc": 0.99}}, [5]),
        ({"cifar10, nsa-id": {"attacks.3-4-1.mutual_information.auroc": 0.5}}, [6]),
        ({"cifar10, nsa-id": {"attacks.3-4-1.entropy.auroc": 0.1, "attacks.3-4-1.accuracy": 0.0}}, []),
        ({"cifar10, nsa-id": {"weighted.stacked.mean_log_p": -0.31}}, [7]),
        ({"cifar10, nsa-id": {"weighted.posterior.mean_log_p": -9.0}}, []),
    ],
)
def test_verdicts_on_ensembles(changes: Changes, failing: list[int]) -> None:
    assert ENSEMBLE_MADE_UP.failing(changes) == failing


def test_numbers_on_ensembles() -> None:
    changes: Changes = {
        "cifar10, nsa-id": {"test.accuracy": [0.89, 0.90, 0.91]},
        "cifar10, dropout 0.3": {"test.accuracy": 0.88},
    }
    claims = ENSEMBLE_MADE_UP.claims(changes)
    assert [claim.number for claim in claims] == [4, 4, 4, 4, 4, 5, 5, None]
    assert "CIFAR-10: 90.00 +- 1.00 % (NSA-id), 88.00 +- 0.00 % (residual)" in claims[0].numbers
    assert "Fashion-MNIST: 2.00 +- 0.00 % (NSA-id), 4.00 +- 0.00 % (dropout 0.1)" in claims[3].numbers
    assert "CIFAR-10: 90.00 +- 1.00 % (NSA-id), 87.00 +- 0.00 % (dropout 0.1)" not in claims[2].numbers
    assert "CIFAR-10: 89.50 +- 0.71 % (NSA-id), 88.00 +- 0.00 % (dropout 0.3)" in claims[2].numbers  # two seeds
    alone = "trained alone 88.50 +- 0.00 %, NSA-id 90.00 +- 0.00 %, ensemble of those trained alone 92.00 +- 0.00 %"
    assert alone in claims[4].numbers
    foreign = "CIFAR-10 against Fashion-MNIST: 0.950 +- 0.000 (NSA-id), 0.850 +- 0.000 (dropout 0.1)"
    assert foreign in claims[5].numbers
    assert "1-2-1: accuracy 0.400 +- 0.000, AUROC 0.650 +- 0.000" in claims[6].numbers
    assert "equal -0.3000 +- 0.0000, stacked -0.2900 +- 0.0000, posterior -0.4000" in claims[7].numbers


def test_without_another_data_set_detection_is_not_judged() -> None:
    settings = {**ENSEMBLE_SETTINGS, "outside": {"fashion_mnist": [], "cifar10": []}}
    detection = MadeUp(ENSEMBLE, settings, ENSEMBLE_RUNS).claims({})[5]
    assert detection.supported is None and detection.numbers == "no other data set here"


def test_the_best_dropout_on_the_seeds_that_all_rates_have() -> None:
    settings = {"seeds": {"residual": 1, "dropout 0.1": 3, "dropout 0.3": 2}}
    values = {"dropout 0.1": [0.9, 0.8, 0.1], "dropout 0.3": [0.7, 0.8]}  # 0.85 and 0.75; 0.6 with the third seed
    assert best_dropout(settings, values.__getitem__) == "dropout 0.1"
    assert best_dropout(settings, values.__getitem__, lowest=True) == "dropout 0.3"


def test_sides_are_compared_on_common_seeds() -> None:
    assert on_common_seeds([1.0, 2.0, 3.0], [4.0], [5.0, 6.0]) == [[1.0], [4.0], [5.0]]


def test_tables_of_ensembles() -> None:
    tables = ENSEMBLE_MADE_UP.tables({})
    quality, strange, attacks, costs = (
        named(tables, start) for start in ("Accuracy and", "Telling", "Under attack", "Accuracy, %,")
    )
    assert len(tables) == 4
    assert [len(table.rows) for table in (quality, strange, attacks, costs)] == [2 * 6, 2 * 6 * 4, 2 * 6 * 3, 2 * 3]
    small, large = "+- 0.0000", "+- 0.00"
    assert quality.rows[3] == [
        "Fashion-MNIST", "alone", "2", f"88.50 {large}", f"92.00 {large}", f"-0.3000 {small}", f"0.0200 {small}",
        f"-0.2500 {small}", f"0.0100 {small}", f"0.0500 {small}",
    ]  # fmt: skip
    assert strange.rows[0][1:] == ["residual", "MNIST", "-", "-", "-", *["0.600 +- 0.000"] * 2]  # nobody to disagree
    by_information = [f"{value} +- 0.000" for value in ("0.850", "0.500", "0.400")]
    assert strange.rows[4][1:] == ["dropout 0.1", "MNIST", *by_information, *["0.600 +- 0.000"] * 2]
    assert strange.rows[2][2] == "gaussian noise"
    assert attacks.rows[1][1:] == ["residual", "2-3-1", "0.400 +- 0.000", "-", *["0.600 +- 0.000"] * 2]
    assert attacks.rows[3][4] == "0.650 +- 0.000"
    assert costs.columns[-5:] == [f"T = {size}" for size in range(1, 6)]
    assert costs.rows[-1][1:] == ["nsa-id", "1.00", "5.00", *(f"{value}.00 {large}" for value in range(86, 91))]


def test_figures_of_ensembles() -> None:
    figures = ENSEMBLE_MADE_UP.figures({})
    accuracy, calibration = panels(figures["ensemble_quality"])
    assert len(accuracy) == len(calibration) == 12
    assert [row["mean"] for row in accuracy[:6]] == pytest.approx([88, 87, 86, 92, 89, 90])
    assert calibration[7] == {
        "x": "CIFAR-10", "series": "dropout 0.1", "mean": pytest.approx(0.04), "low": pytest.approx(0.04),
        "high": pytest.approx(0.04),
    }  # fmt: skip
    detection, _ = panels(figures["ensemble_detection"])
    against_mnist = {row["series"]: row["mean"] for row in detection if row["x"] == "MNIST"}
    assert against_mnist["nsa-id"] == pytest.approx(0.95)
    assert against_mnist["residual"] == pytest.approx(0.6)  # by entropy
    for attacks in panels(figures["ensemble_attacks"]):
        assert [row["mean"] for row in attacks] == pytest.approx([0.4] * (6 * 3))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["residual", "dropout 0.1", "nsa-id"])
def test_made_up_runs_have_the_form_of_real_ones(method: str, tmp_path: Path) -> None:
    require_same_form(ENSEMBLE, ENSEMBLE_RUNS[method], f"digits, {method} seed 0", tmp_path)


@pytest.mark.slow
def test_a_run_agrees_with_itself(tmp_path: Path) -> None:
    settings = ENSEMBLE.presets["quick"]
    mixed = ENSEMBLE.task(settings, ("digits, nsa-id", 0), tmp_path)
    assert mixed["members"] == len(mixed["sizes"]) == settings["wirings"]
    assert mixed["sizes"][-1] == mixed["test"]["accuracy"]
    assert mixed["macs"]["one"] < mixed["macs"]["all"] < 2 * mixed["macs"]["one"]  # the stem is shared
    for weighted in mixed["weighted"].values():
        assert sum(weighted["weights"]) == pytest.approx(1)
