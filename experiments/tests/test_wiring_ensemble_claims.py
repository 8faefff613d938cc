"""What made-up runs of `wiring_ensemble` say."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import DATA, Changes, MadeUp, Run, named, panels, require_same_form

from polyarch.plugins import EXPERIMENTS
from polyarch_experiments.experiment import Settings
from polyarch_experiments.page import is_current, judged_claims
from polyarch_experiments.results import Claim, ExperimentResults

ENSEMBLE = EXPERIMENTS["wiring_ensemble"]
ATTACKS = ["1-2-1", "2-3-1", "3-4-1"]


def mixture(
    accuracy: float,
    error: float = 0.02,
    *,
    members: int = 5,
    alone: float = 0.88,
    auroc: float = 0.9,
    log_p: float = -0.3,
) -> Run:
    """A run of a method with these measures.

    Args:
        alone: the mean accuracy of its members.
        auroc: of mutual information for foreign images; of entropy it is 0.6, for corrupted images 0.7.
    """
    detection = {"auroc": 0.6, "aupr": 0.5, "fpr95": 0.4}
    measured = {
        "mean_log_p": log_p, "mean_p": 0.8, "accuracy": accuracy, "calibration_error": error,
        "calibration_floor": 0.005, "calibration_low": error - 0.01, "calibration_high": error + 0.01, "brier": 0.1,
        "risk_area": 0.05,
    }  # fmt: skip
    scored = {"entropy": detection, "max_probability": detection}
    foreign, corrupted, attacked = (
        {**scored, "mutual_information": {**detection, "auroc": value}} if members > 1 else scored
        for value in (auroc, 0.7, auroc - 0.3)
    )
    found: Run = {
        "train": 0.995,
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
        "attacks": {name: {"accuracy": accuracy - 0.5, **attacked} for name in ATTACKS},
    }
    if 1 < members <= 5:
        found["weighted"] = {
            "posterior": {**measured, "mean_log_p": -0.4, "weights": (0.2,) * 5},
            "stacked": {**measured, "mean_log_p": log_p + 0.01, "weights": (0.2,) * 5},
        }
    return found


ENSEMBLE_RUNS = {
    "residual": mixture(0.88, 0.05, members=1, log_p=-0.4),
    "nsa-id": mixture(0.90, auroc=0.95),
    "dropout 0.2": mixture(0.87, 0.04, members=30, auroc=0.85, log_p=-0.35),
    "packed 4": mixture(0.89, 0.03, members=4, log_p=-0.32),
    "alone": mixture(0.92, alone=0.885),
}
"""As the document has it."""
ENSEMBLE_SETTINGS: Settings = {
    "data": DATA,
    "seeds": {"residual": 3, "nsa-id": 3, "dropout 0.2": 3, "packed 4": 2, "alone": 2},
    "outside": {"fashion_mnist": ["mnist"], "cifar10": ["fashion_mnist"]},
    "attacks": ATTACKS,
    "wirings": 5,
    "layout": "aggregated",
}
ENSEMBLE_MADE_UP = MadeUp(ENSEMBLE, ENSEMBLE_SETTINGS, ENSEMBLE_RUNS)
CIFAR_100 = 16
"""The claim that nothing here decides."""


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, []),
        ({"cifar10, residual": {"test.accuracy": 0.905}}, [0]),
        ({"cifar10, dropout 0.2": {"test.accuracy": 0.91}}, [1]),
        ({"cifar10, packed 4": {"test.accuracy": 0.91}}, [2]),
        ({"cifar10, residual": {"test.accuracy": [0.95, 0.80, 0.85]}}, [0]),  # undecided: the interval is wide
        ({"fashion_mnist, residual": {"test.mean_log_p": -0.2}}, [3]),
        ({"fashion_mnist, dropout 0.2": {"test.mean_log_p": -0.2}}, [4]),
        ({"fashion_mnist, residual": {"test.calibration_error": 0.01}}, [6]),
        ({"fashion_mnist, dropout 0.2": {"test.calibration_floor": 0.03}}, [7]),  # 0.010 above its floor, not 0.015
        ({"fashion_mnist, residual": {"scaled.calibration_error": 0.0}}, []),
        ({"cifar10, nsa-id": {"alone.accuracy": 0.95}}, []),
        ({"fashion_mnist, alone": {"alone.accuracy": 0.905}}, [9]),
        ({"cifar10, alone": {"test.accuracy": 0.895}}, [10]),
        ({"fashion_mnist, dropout 0.2": {"detection.mnist.mutual_information.auroc": 0.96}}, [11]),
        ({"fashion_mnist, dropout 0.2": {"detection.mnist.entropy.auroc": 0.99}}, []),
        ({"cifar10, dropout 0.2": {"attacks.3-4-1.accuracy": 0.5}}, [12]),
        ({"cifar10, dropout 0.2": {"attacks.3-4-1.mutual_information.auroc": 0.7}}, [13]),
        ({"cifar10, nsa-id": {"attacks.3-4-1.mutual_information.auroc": 0.5}}, [13, 14]),
        ({"cifar10, nsa-id": {"weighted.stacked.mean_log_p": -0.31}}, [15]),
    ],
)
def test_verdicts_on_ensembles(changes: Changes, failing: list[int]) -> None:
    assert ENSEMBLE_MADE_UP.failing(changes) == [*failing, CIFAR_100]


def test_what_is_told() -> None:
    claims = ENSEMBLE_MADE_UP.claims({"cifar10, nsa-id": {"test.accuracy": [0.89, 0.90, 0.91]}})
    assert [claim.number for claim in claims] == [4, 4, None, *[None] * 3, 4, 4, None, 4, 4, 5, 5, 5, 5, None, 4]
    assert "CIFAR-10, difference in accuracy 2.00 (-0.48 to 4.48, undecided)" in claims[0].numbers
    assert "nsa-id 90.0000 +- 1.0000, residual 88.0000 +- 0.0000" in claims[0].numbers
    assert claims[CIFAR_100].needs == "the data, and the preset paper"
    assert claims[14].ours is not None


def test_claims_of_networks_that_do_not_fit_never_fail() -> None:
    changes: Changes = {"cifar10, residual": {"test.calibration_error": 0.001, "train": [0.6, 0.99, 0.99]}}
    calibration = ENSEMBLE_MADE_UP.claims(changes)[6]
    assert calibration.supported is None
    assert calibration.needs is not None and "here 60.0 %" in calibration.needs


def test_a_part_of_the_results_is_judged_as_far_as_it_goes() -> None:
    runs = ENSEMBLE_MADE_UP.runs({})
    first = {key: runs[key] for key in list(ENSEMBLE.items(ENSEMBLE_SETTINGS))[:2]}
    assert list(first) == ["fashion_mnist, residual seed 0", "fashion_mnist, nsa-id seed 0"]
    claims = ENSEMBLE.judge(ENSEMBLE_SETTINGS, first)
    assert len(claims) == 17 and all(claim.supported is None for claim in claims)
    assert "Fashion-MNIST, difference in accuracy 2.00 (no interval)" in claims[0].numbers
    assert ENSEMBLE.tables(ENSEMBLE_SETTINGS, first) and ENSEMBLE.figures(ENSEMBLE_SETTINGS, first)


def test_networks_trained_one_by_one_come_last() -> None:
    names = list(ENSEMBLE.items(ENSEMBLE_SETTINGS))
    assert [name for name in names if "alone" in name] == names[-4:]
    assert names.index("fashion_mnist, residual seed 2") < names.index("cifar10, residual seed 0")


def test_results_of_the_earlier_network_are_undecided() -> None:
    """Their numbers stay, but they say nothing about the network of today."""
    then = {name: value for name, value in ENSEMBLE_SETTINGS.items() if name != "layout"}
    results = ExperimentResults(
        polyarch="0.7.0", torch="2", experiment="wiring_ensemble", preset="cpu", settings=then, runs={},
        claims=[Claim(text="It is better.", supported=True, numbers="90 %")],
    )  # fmt: skip
    (claim,) = judged_claims(ENSEMBLE, results)
    assert claim.supported is None and claim.numbers == "90 %"
    assert claim.needs is not None and "an earlier one" in claim.needs
    assert not is_current(ENSEMBLE, results)


def test_without_another_data_set_detection_is_not_judged() -> None:
    settings = {**ENSEMBLE_SETTINGS, "outside": {"fashion_mnist": [], "cifar10": []}}
    detection = MadeUp(ENSEMBLE, settings, ENSEMBLE_RUNS).claims({})[11]
    assert detection.supported is None and detection.numbers == "no other data set here"


def test_tables_of_ensembles() -> None:
    tables = ENSEMBLE_MADE_UP.tables({})
    quality, strange, attacks, costs = (
        named(tables, start) for start in ("Accuracy and", "Telling", "Under attack", "Accuracy, %,")
    )
    assert len(tables) == 4
    assert [len(table.rows) for table in (quality, strange, attacks)] == [2 * 5, 2 * 5 * 4, 2 * 5 * 3]
    small, large = "+- 0.0000", "+- 0.00"
    assert quality.rows[4] == [
        "Fashion-MNIST", "alone", "2", f"99.50 {large}", f"88.50 {large}", f"92.00 {large}", f"-0.3000 {small}",
        f"0.0200 {small}; 0.0050; 0.0100 to 0.0300", f"-0.2500 {small}", f"0.0100 {small}; 0.0050; 0.0100 to 0.0300",
        f"0.0500 {small}",
    ]  # fmt: skip
    assert strange.rows[0][1:] == ["residual", "MNIST", "-", "-", "-", *["0.600 +- 0.000"] * 2]  # nobody to disagree
    assert strange.rows[2][2] == "gaussian noise"
    assert attacks.rows[1][1:] == ["residual", "2-3-1", "0.380 +- 0.000", "-", *["0.600 +- 0.000"] * 2]
    assert costs.columns[-5:] == [f"T = {size}" for size in range(1, 6)]


def test_figures_of_ensembles() -> None:
    figures = ENSEMBLE_MADE_UP.figures({})
    accuracy, calibration = panels(figures["ensemble_quality"])
    assert len(accuracy) == len(calibration) == 10
    assert [row["mean"] for row in accuracy[:5]] == pytest.approx([88, 90, 87, 89, 92])
    detection, _ = panels(figures["ensemble_detection"])
    against_mnist = {row["series"]: row["mean"] for row in detection if row["x"] == "MNIST"}
    assert against_mnist["nsa-id"] == pytest.approx(0.95)
    assert against_mnist["residual"] == pytest.approx(0.6)  # by entropy


@pytest.mark.slow
@pytest.mark.parametrize("method", ["residual", "dropout 0.2", "nsa-id"])
def test_made_up_runs_have_the_form_of_real_ones(method: str, tmp_path: Path) -> None:
    require_same_form(ENSEMBLE, ENSEMBLE_RUNS[method], f"digits, {method} seed 0", tmp_path)


@pytest.mark.slow
def test_a_run_agrees_with_itself(tmp_path: Path) -> None:
    settings = ENSEMBLE.presets["quick"]
    mixed = ENSEMBLE.task(settings, ("digits, nsa-id", 0), tmp_path)
    assert mixed["members"] == len(mixed["sizes"]) == settings["wirings"]
    assert mixed["sizes"][-1] == mixed["test"]["accuracy"]
    assert mixed["macs"]["all"] == pytest.approx(2 * mixed["macs"]["one"])  # every wiring normalises the stem
    for weighted in mixed["weighted"].values():
        assert sum(weighted["weights"]) == pytest.approx(1)
