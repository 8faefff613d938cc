"""What made-up runs of the experiments on stochastic architectures say, and single measures by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from polyarch.data import Cutout, Normalisation, RandomShift, TensorData
from polyarch.experiments import EXPERIMENTS, Experiment
from polyarch.experiments.experiment import Settings, Table
from polyarch.experiments.shared_wirings import _ensembles
from polyarch.experiments.shared_wirings_claims import REPORTED_AUC, gain, gaps, largest
from polyarch.experiments.wired_networks import Images, draw_wirings, measure
from polyarch.experiments.wiring_consistency import chosen
from polyarch.experiments.wiring_ensemble import _alone, _scores
from polyarch.experiments.wiring_ensemble_claims import best_dropout, on_common_seeds
from polyarch.results import Claim

SHARED, ENSEMBLE, CONSISTENCY = (
    EXPERIMENTS[name] for name in ("shared_wirings", "wiring_ensemble", "wiring_consistency")
)
IMAGES: Settings = {"size": None, "train": 200, "valid": 50, "test": 60, "cutout": False}
DATA = ["fashion_mnist", "cifar10"]
ATTACKS = ["1-2-1", "2-3-1", "3-4-1"]

Run = dict[str, Any]
Changes = Mapping[str, Mapping[str, Any]]
"""Fields of some runs, by ``data, method``; a key such as ``test.accuracy`` leads to one number of a field."""


@dataclass(frozen=True)
class MadeUp:
    """An experiment with settings of the tests' own, and a made-up run for every method."""

    experiment: Experiment
    settings: Settings
    methods: Mapping[str, Run]

    def runs(self, changes: Changes) -> dict[str, Run]:
        """The run of a method for every seed and data set, but for the changes; a list has one value per seed."""
        runs = {}
        for key, (name, seed) in self.experiment.items(self.settings).items():
            run = copied(self.methods[name.split(", ")[1]])
            for path, values in changes.get(name, {}).items():
                *way, last = path.split(".")
                place = run
                for step in way:
                    place = place[step]
                assert last in place  # a change of nothing would change nothing
                place[last] = values[seed] if isinstance(values, list) else values
            runs[key] = run
        return runs

    def claims(self, changes: Changes) -> list[Claim]:
        """What the judge says."""
        return self.experiment.judge(self.settings, self.runs(changes))

    def failing(self, changes: Changes) -> list[int]:
        """The positions of the claims that do not hold."""
        return [position for position, claim in enumerate(self.claims(changes)) if not claim.supported]

    def tables(self, changes: Changes) -> dict[str, Table]:
        """By caption."""
        return self.experiment.tables(self.settings, self.runs(changes))

    def figures(self, changes: Changes) -> dict[str, Any]:
        """By name."""
        return self.experiment.figures(self.settings, self.runs(changes))


def copied(value: Any) -> Any:
    return {key: copied(part) for key, part in value.items()} if isinstance(value, dict) else value


def named(tables: Mapping[str, Table], start: str) -> Table:
    (found,) = (table for caption, table in tables.items() if caption.startswith(start))
    assert found.rows and all(len(row) == len(found.columns) for row in found.rows)
    return found


def panels(spec: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The rows behind every panel of a figure."""
    return [panel["data"]["values"] for panel in spec.get("concat", [spec])]


def shared(
    batch: float, running: float, *, spearman: float | None = 0.6, together: float, auc: float | None = None
) -> Run:
    """A run whose three wirings have these mean accuracies, and whose largest ensemble has accuracy ``together``."""
    names = ("mean_log_p", "mean_p", "accuracy", "calibration_error")
    found: Run = {
        "curve": [epoch / 100 for epoch in range(20)],
        "batch": (batch - 0.01, batch, batch + 0.01),
        "running": (running - 0.02, running, running + 0.02),
        "spearman": spearman,
        "mean_variance": {"batch": 0.02, "example": 0.001},
        "policies": {"running": 0.7, "batch": 0.75, "adapt(20)": 0.76, "reestimate(20)": 0.77},
        "ensemble": {
            size: {**dict.fromkeys(names, 0.5), "accuracy": value} for size, value in (("2", 0.1), ("10", together))
        },
    }
    return (
        found
        if auc is None
        else {
            **found,
            "unseen": (running - 0.05,) * 3,
            "edges": {"seen": 5.0, "unseen": 6.0},
            "seen_auc": auc,
        }
    )


SHARED_RUNS: dict[str, Run] = {
    "nsa 500": shared(0.80, 0.70, spearman=0.3, together=0.71, auc=0.55),
    **{method: shared(0.80, 0.79, together=0.793, auc=auc) for method, auc in REPORTED_AUC.items()},
    **{f"nsa-id {count}": shared(0.80, 0.79, together=0.80) for count in (5, 20)},
}
"""As the document has it."""
SHARED_MADE_UP = MadeUp(
    SHARED, {"data": DATA, "seeds": 2, "methods": dict.fromkeys(SHARED_RUNS), "epochs": 20, "judged": 3}, SHARED_RUNS
)


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, []),
        # each kind of draws counts with the method that was trained by it
        ({"cifar10, nsa-i 500": {"mean_variance.example": 0.03}}, [0]),
        ({"cifar10, nsa 500": {"mean_variance.batch": 0.0005}}, [0]),
        ({"cifar10, nsa-i 500": {"mean_variance.batch": 0.0}, "cifar10, nsa 500": {"mean_variance.example": 1.0}}, []),
        # further away, whichever of the two accuracies is the better one
        ({"cifar10, nsa-i 500": {"batch": (0.95,) * 3}}, [1]),
        ({"fashion_mnist, nsa-i 500": {"batch": (0.65,) * 3}}, [1]),
        ({"fashion_mnist, nsa-i 500": {"batch": (0.72,) * 3}}, []),
        ({"cifar10, nsa 500": {"spearman": 0.9}}, [2]),
        ({"cifar10, nsa-i 500": {"spearman": None}}, [2]),
        ({"cifar10, nsa 500": {"spearman": [0.9, None]}}, []),  # 0.45 in the mean
        # of those with weights of their own the one with most wirings counts
        ({"cifar10, nsa-id 20": {"ensemble.10.accuracy": 0.792}}, [3]),
        ({"cifar10, nsa-i 500": {"ensemble.10.accuracy": 0.81}}, [3]),
        ({"cifar10, nsa-id 5": {"ensemble.10.accuracy": 0.5}}, []),
        ({"cifar10, nsa-i 5": {"seen_auc": 0.85}}, [4]),
        ({"fashion_mnist, nsa-i 5000": {"seen_auc": 0.7}}, [4]),
        ({"fashion_mnist, nsa-i 50": {"seen_auc": 0.2}, "cifar10, nsa 500": {"seen_auc": 1.0}}, []),
    ],
)
def test_verdicts_on_shared_weights(changes: Changes, failing: list[int]) -> None:
    assert SHARED_MADE_UP.failing(changes) == failing


def test_numbers_on_shared_weights() -> None:
    changes = {"cifar10, nsa 500": {"spearman": [0.1, 0.3]}}
    variance, disparity, order, gained, unseen = SHARED_MADE_UP.claims(changes)
    assert "Fashion-MNIST: 0.0200 +- 0.0000 with a wiring per batch, 0.0010 +- 0.0000 per example" in variance.numbers
    assert "Fashion-MNIST: NSA 10.00 +- 0.00, NSA-i 1.00 +- 0.00 points" in disparity.numbers
    assert "CIFAR-10: NSA 0.20 +- 0.14, NSA-i 0.60 +- 0.00" in order.numbers
    assert "NSA-i 0.30 +- 0.00, NSA-id 1.00 +- 0.00 points" in gained.numbers and "nsa-id 20" in gained.numbers
    assert "S = 5: 1.00 +- 0.00, S = 50: 0.77 +- 0.00, S = 500: 0.57 +- 0.00, S = 5000: 0.52" in unseen.numbers
    assert [claim.number for claim in (variance, disparity, order, gained, unseen)] == [1, 1, 1, 2, 3]


def test_gaps_and_gains() -> None:
    settings = {"seeds": 2, "data": ["digits"], "methods": {"nsa": {}}}
    runs = {
        "digits, nsa seed 0": {"batch": [0.9, 0.7], "running": [0.5, 0.7]},
        "digits, nsa seed 1": {"batch": [0.5], "running": [0.75]},
    }
    assert gaps(settings, runs, "digits", "nsa") == pytest.approx([20.0, -25.0])
    sizes = {"1": {"accuracy": 0.1}, "20": {"accuracy": 0.9}, "3": {"accuracy": 0.2}}  # 20 is more than 3
    run = {"ensemble": sizes, "running": [0.7, 0.8, 0.9]}
    assert largest(run) == 20
    assert gain(run, 20) == pytest.approx(10.0) and gain(run, 3) == pytest.approx(-60.0)


def test_tables_of_shared_weights() -> None:
    tables = SHARED_MADE_UP.tables({"cifar10, nsa-i 5": {"spearman": None}})
    seen, modes, policies = (named(tables, start) for start in ("Accuracy of seen", "Batch and running", "Mean acc"))
    assert len(tables) == 3
    assert len(seen.rows) == 2 * 5 and len(modes.rows) == len(policies.rows) == 2 * 7
    spread = "+- 0.00"
    assert seen.rows[0] == [
        "Fashion-MNIST",
        "nsa 500",
        f"70.00 {spread}",
        f"65.00 {spread}",
        "5.0 +- 0.0",
        "6.0 +- 0.0",
        f"0.55 {spread}",
        "-",
    ]
    assert [row[-1] for row in seen.rows[1:5]] == ["1.00", "0.77", "0.57", "0.52"]
    assert modes.rows[0][2:] == [
        f"80.00 {spread}", f"70.00 {spread}", f"0.30 {spread}", "0.0200 +- 0.0000", "0.0010 +- 0.0000",
        f"1.00 {spread}",
    ]  # fmt: skip
    assert modes.rows[8][:2] == ["CIFAR-10", "nsa-i 5"] and modes.rows[8][4] == f"0.00 {spread}"
    assert policies.columns[2:] == ["running", "batch", "adapt(20)", "reestimate(20)"]
    assert policies.rows[-1][2:] == [f"{value}.00 {spread}" for value in (70, 75, 76, 77)]


def test_figures_of_shared_weights() -> None:
    figures = SHARED_MADE_UP.figures({})
    curves, ensembles, modes, unseen = (
        panels(figures[f"wiring_{name}"]) for name in ("curves", "ensembles", "norm_modes", "unseen")
    )
    assert [len(rows) for rows in curves] == [7 * 20] * 2
    assert curves[0][19] == {"x": 20, "series": "nsa 500", "mean": pytest.approx(19), "low": 19, "high": 19}
    assert [(row["x"], row["mean"]) for row in ensembles[1][:2]] == [(2, pytest.approx(10)), (10, pytest.approx(71))]
    assert {row["series"] for row in modes[0]} == {"nsa 500", "nsa-i 500"}
    assert [(row["x"], row["y"]) for row in modes[0][:3]] == [
        (pytest.approx(79), pytest.approx(68)),
        (pytest.approx(80), pytest.approx(70)),
        (pytest.approx(81), pytest.approx(72)),
    ]
    assert [len(bars) for bars in unseen] == [5 * 2] * 2
    assert [(row["series"], row["mean"]) for row in unseen[0][:2]] == [
        ("seen", pytest.approx(70)),
        ("unseen", pytest.approx(65)),
    ]


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


def few_labels(valid: float, one: float) -> Run:
    ensemble = {
        "mean_log_p": -0.5, "mean_p": 0.7, "accuracy": one + 0.01, "calibration_error": 0.1, "brier": 0.1,
        "risk_area": 0.1,
    }  # fmt: skip
    return {"valid": valid, "curve": (0.5, 0.6, valid), "one": one, "ensemble": ensemble, "labels": 400}


CONSISTENCY_RUNS = {
    "supervised": few_labels(0.80, 0.80),
    "nsa-i": few_labels(0.81, 0.81),
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
        ({"cifar10, supervised": {"one": 0.87}}, [0]),
        ({"cifar10, nsa-i": {"one": 0.87}}, [0]),
        ({"cifar10, pi 2": {"one": 0.87}}, [1]),
        ({"cifar10, pi 2": {"one": [0.87, 0.84]}}, []),
        ({"cifar10, pi 20": {"one": 0.90}}, []),  # the weight is chosen by validation, not by test
        ({"cifar10, pi 20": {"one": 0.90, "valid": 0.90}}, [1]),
        ({"cifar10, wirings 2": {"valid": 0.90}}, [0, 1]),
        ({"cifar10, wirings 20": {"ensemble.accuracy": 0.1}}, []),  # single wirings are judged
    ],
)
def test_verdicts_on_few_labels(changes: Changes, failing: list[int]) -> None:
    assert CONSISTENCY_MADE_UP.failing(changes) == failing


def test_the_weight_chosen_by_validation() -> None:
    changes = {"cifar10, pi 2": {"valid": [0.9, 0.7]}, "cifar10, pi 20": {"valid": [0.75, 0.86]}}  # 0.8 and 0.805
    settings, runs = CONSISTENCY_MADE_UP.settings, CONSISTENCY_MADE_UP.runs(changes)
    assert chosen(settings, runs, "cifar10", "pi") == "pi 20"
    assert chosen(settings, runs, "fashion_mnist", "pi") == "pi 2"
    assert chosen(settings, runs, "fashion_mnist", "wirings") == "wirings 20"
    assert chosen(settings, runs, "fashion_mnist", "nsa-i") == "nsa-i"


def test_numbers_tables_and_figures_of_few_labels() -> None:
    changes = {"cifar10, supervised": {"one": [0.79, 0.81]}}
    first, second = CONSISTENCY_MADE_UP.claims(changes)
    assert first.number == second.number == 6 and first.numbers == second.numbers
    assert "CIFAR-10: labels only 80.00 +- 1.41 %, wirings, labels only 81.00 +- 0.00 %" in first.numbers
    assert "Pi model (dropout) 83.00 +- 0.00 %, wirings 86.00 +- 0.00 %" in first.numbers
    table = named(CONSISTENCY_MADE_UP.tables(changes), "Accuracy with 400 labels")
    assert len(table.rows) == 2 * 6
    values = ["84.00 +- 0.00", "83.00 +- 0.00", "84.00 +- 0.00", "-0.500 +- 0.000"]
    assert table.rows[2] == ["Fashion-MNIST", "pi 2", *values]
    figures = CONSISTENCY_MADE_UP.figures(changes)
    curves = panels(figures["consistency_curves"])
    assert [len(rows) for rows in curves] == [6 * 3] * 2
    assert [(row["x"], row["mean"]) for row in curves[0][:3]] == [
        (1, pytest.approx(50)),
        (6, pytest.approx(60)),
        (11, pytest.approx(80)),
    ]
    (ends,) = panels(figures["consistency_accuracy"])
    assert [row["mean"] for row in ends[:6]] == pytest.approx([80, 81, 83, 85, 80, 86])
    assert ends[6]["high"] - ends[6]["low"] == pytest.approx(2 * math.sqrt(2))


def keys(value: Any) -> Any:
    return {key: keys(part) for key, part in value.items()} if isinstance(value, dict) else None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment", "made_up", "item"),
    [
        (SHARED, SHARED_RUNS["nsa-i 5"], "digits, nsa-i 5 seed 0"),
        (SHARED, SHARED_RUNS["nsa-id 5"], "digits, nsa-id 5 seed 0"),
        (ENSEMBLE, ENSEMBLE_RUNS["residual"], "digits, residual seed 0"),
        (ENSEMBLE, ENSEMBLE_RUNS["dropout 0.1"], "digits, dropout 0.1 seed 0"),
        (ENSEMBLE, ENSEMBLE_RUNS["nsa-id"], "digits, nsa-id seed 0"),
        (CONSISTENCY, CONSISTENCY_RUNS["wirings 2"], "digits, wirings 2 seed 0"),
    ],
)
def test_made_up_runs_have_the_form_of_real_ones(
    experiment: Experiment, made_up: Run, item: str, tmp_path: Path
) -> None:
    """Up to the names of sizes, policies, strange inputs and attacks, which are those of the preset."""
    settings = experiment.presets["quick"]
    real, expected = keys(experiment.task(settings, experiment.items(settings)[item], tmp_path)), keys(made_up)
    assert list(real) == list(expected)
    for name in ("ensemble", "detection", "attacks"):
        if name in real and "accuracy" not in real[name]:
            real[name], expected[name] = (next(iter(one[name].values())) for one in (real, expected))
    assert {**real, "policies": None} == {**expected, "policies": None}


@pytest.mark.slow
def test_a_run_agrees_with_itself(tmp_path: Path) -> None:
    settings = SHARED.presets["quick"]
    found = SHARED.task(settings, ("digits, nsa-i 5", 0), tmp_path)
    assert len(found["curve"]) == settings["epochs"]
    assert (
        len(found["batch"])
        == len(found["running"])
        == len(found["unseen"])
        == settings["methods"]["nsa-i 5"]["wirings"]
    )
    assert found["ensemble"]["1"]["accuracy"] == pytest.approx(found["running"][0], abs=1e-5)
    pairs = [(seen, unseen) for seen in found["running"] for unseen in found["unseen"]]
    above = sum((seen > unseen) + (seen == unseen) / 2 for seen, unseen in pairs) / len(pairs)
    assert found["seen_auc"] == pytest.approx(above) and above != 0.5
    settings = ENSEMBLE.presets["quick"]
    mixed = ENSEMBLE.task(settings, ("digits, nsa-id", 0), tmp_path)
    assert mixed["members"] == len(mixed["sizes"]) == settings["wirings"]
    assert mixed["sizes"][-1] == mixed["test"]["accuracy"]
    assert mixed["macs"]["one"] < mixed["macs"]["all"] < 2 * mixed["macs"]["one"]  # the stem is shared
    for weighted in mixed["weighted"].values():
        assert sum(weighted["weights"]) == pytest.approx(1)


def logits_of(*members: list[list[float]]) -> torch.Tensor:
    """Logits (K, N, C) of these probabilities, with a constant that softmax removes."""
    return torch.tensor(members, dtype=torch.float64).log() + 3.0


FIRST, SECOND = [[0.9, 0.1], [0.6, 0.4]], [[0.5, 0.5], [0.2, 0.8]]
"""Two members on two examples; equally mixed they say (0.7, 0.3) and (0.4, 0.6)."""


def test_measures_of_a_mixture_by_hand() -> None:
    found = measure(logits_of(FIRST, SECOND), torch.tensor([0, 0]))
    assert found == {
        "mean_log_p": pytest.approx((math.log(0.7) + math.log(0.4)) / 2),
        "mean_p": pytest.approx(0.55),
        "accuracy": 0.5,
        "calibration_error": pytest.approx((0.3 + 0.6) / 2),  # right with 0.7, wrong with 0.6: two bins
        "brier": pytest.approx((2 * 0.3**2 + 2 * 0.6**2) / 2),
        "risk_area": pytest.approx(0.25),  # the surer one is right: risks 0 and 1/2 at coverages 1/2 and 1
    }
    assert measure(logits_of(FIRST, SECOND), torch.tensor([1, 1]))["risk_area"] == pytest.approx(0.75)


def test_measures_of_a_weighted_mixture_by_hand() -> None:
    targets = torch.tensor([0, 0])
    found = measure(logits_of(FIRST, SECOND), targets, torch.tensor([0.25, 0.75]))
    assert found["mean_p"] == pytest.approx((0.6 + 0.3) / 2)
    alone = measure(logits_of(FIRST), targets)
    assert measure(logits_of(FIRST, SECOND), targets, torch.tensor([1.0, 0.0])) == pytest.approx(alone)


def test_members_alone_are_means_over_members() -> None:
    found = _alone(logits_of(FIRST, SECOND), torch.tensor([0, 1]))
    assert found["mean_p"] == pytest.approx((0.9 + 0.4 + 0.5 + 0.8) / 4)
    assert found["accuracy"] == pytest.approx((0.5 + 1.0) / 2)  # at a tie the first class is taken


def test_scores_of_strange_inputs_by_hand() -> None:
    """Two members that contradict each other, and two that are equally unsure: log 2 of disagreement, and none."""
    sure = 1 - 1e-12
    logits = logits_of([[sure, 1 - sure], [0.5, 0.5]], [[1 - sure, sure], [0.5, 0.5]])
    found = _scores(logits)
    assert found["mutual_information"].tolist() == pytest.approx([math.log(2), 0.0], abs=1e-9)
    assert found["entropy"].tolist() == pytest.approx([math.log(2)] * 2)
    assert found["max_probability"].tolist() == pytest.approx([0.5, 0.5])
    single = _scores(logits[:1])
    assert "mutual_information" not in single
    assert single["entropy"][0] < single["entropy"][1] and single["max_probability"][0] < single["max_probability"][1]


def test_ensembles_of_the_first_wirings() -> None:
    logits, targets = logits_of(FIRST, SECOND, [[0.2, 0.8], [0.1, 0.9]]), torch.tensor([0, 0])
    found = _ensembles({"ensemble_sizes": [1, 2, 3, 5]}, logits, targets)
    assert list(found) == ["1", "2", "3"]
    assert [found[size]["mean_p"] for size in found] == pytest.approx([1.5 / 2, 1.1 / 2, (1.5 + 0.7 + 0.3) / 6])
    assert [found[size]["accuracy"] for size in found] == [1.0, 0.5, 0.5]
    assert found["2"] == pytest.approx({name: measure(logits[:2], targets)[name] for name in found["2"]})


def rows_of(data: TensorData) -> set[tuple[float, ...]]:
    """All digits differ, so that the pixels are a name."""
    return set(map(tuple, data.inputs.flatten(1).tolist()))


def test_parts_of_the_images() -> None:
    first, again, other = (Images.of(IMAGES, "digits", seed) for seed in (0, 0, 1))
    parts = [rows_of(part) for part in (first.train, first.valid, first.test)]
    for part, examples, wanted in zip(parts, (first.train, first.valid, first.test), (200, 50, 60), strict=True):
        assert len(part) == len(examples) and abs(len(examples) - wanted) <= 5  # every class is rounded
        counts = torch.bincount(examples.targets, minlength=10)
        assert counts.max() - counts.min() <= 2
    assert len(set.union(*parts)) == sum(map(len, parts))  # nothing is in two of them
    assert rows_of(again.train) == parts[0] and rows_of(again.valid) == parts[1]
    assert rows_of(other.train) != parts[0] and rows_of(other.valid) != parts[1]
    assert other.test.inputs.equal(first.test.inputs) and other.test.targets.equal(first.test.targets)
    assert not parts[2] & (rows_of(other.train) | rows_of(other.valid))
    assert first.normalisation == Normalisation.of(first.train) != other.normalisation


def test_augmentations_that_keep_the_class() -> None:
    assert Images.of(IMAGES, "digits", 0).augmentations == (RandomShift(1),)  # a mirrored digit is none
    with_cutout = {**IMAGES, "cutout": True}
    assert Images.of(with_cutout, "digits", 0).augmentations == (RandomShift(1), Cutout(4))


def test_batches_of_the_images() -> None:
    images = Images.of(IMAGES, "digits", 0)
    judged = list(images.batches(images.test, 25).epoch(0))
    assert torch.cat([batch.targets for batch in judged]).equal(images.test.targets)  # all of them, in order
    torch.testing.assert_close(
        torch.cat([batch.inputs for batch in judged]), images.normalisation(images.test.inputs), rtol=0, atol=0
    )
    orders = [
        next(images.training_batches(images.train, 32, seed, stream).epoch(0)).targets.tolist()
        for seed, stream in ((0, "train"), (0, "unlabelled"), (1, "train"), (0, "train"))
    ]
    assert orders[0] == orders[3] and orders[0] not in (orders[1], orders[2])


def test_images_from_outside_are_on_the_same_scale() -> None:
    """The test digits as strangers to themselves: the same values, up to the rounding to bytes."""
    images = Images.of({**IMAGES, "test": 1000}, "digits", 0)
    outside = images.outside("digits")
    assert len(outside) == len(images.test) == 359 and outside.inputs.dtype == torch.uint8
    shown, strange = (next(images.batches(data, 359).epoch(0)).inputs for data in (images.test, outside))
    torch.testing.assert_close(strange, shown, rtol=0, atol=0.51 / 255 / images.normalisation.std[0])
    few = Images.of(IMAGES, "digits", 0)
    assert abs(len(few.outside("digits")) - len(few.test)) <= 5


def test_wirings_by_stream_and_seed() -> None:
    settings = {"stages": 3, "modules": 4}
    drawn = draw_wirings(settings, 20, 0)
    assert drawn == draw_wirings(settings, 20, 0) and draw_wirings(settings, 5, 0) == drawn[:5]
    others = draw_wirings(settings, 20, 0, "unseen"), draw_wirings(settings, 20, 1)
    for other in others:
        assert len(set(other)) == 20 and other != drawn and len(set(other) & set(drawn)) < 10
    assert drawn[0].space.name == "wired3x4"
