"""What made-up runs of `shared_wirings` say."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import DATA, Changes, MadeUp, Run, named, panels, require_same_form

from polyarch.plugins import EXPERIMENTS
from polyarch_experiments.stochastic.shared_wirings_claims import REPORTED_AUC, gain, gap, largest

SHARED = EXPERIMENTS["shared_wirings"]


def shared(
    batch: float, running: float, *, spearman: float | None = 0.6, together: float, auc: float | None = None
) -> Run:
    """A run whose three wirings have these mean accuracies, and whose largest ensemble has accuracy ``together``."""
    names = ("mean_log_p", "mean_p", "accuracy", "calibration_error", "brier", "risk_area")
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
    if auc is not None:
        edges = {"seen": 5.0, "unseen": 6.0}
        found |= {"unseen": (running - 0.05,) * 3, "edges": edges, "seen_auc": auc}
    return found


SHARED_RUNS: dict[str, Run] = {
    "nsa 500": shared(0.80, 0.70, spearman=0.3, together=0.71, auc=0.55),
    **{method: shared(0.80, 0.79, together=0.793, auc=auc) for method, auc in REPORTED_AUC.items()},
    **{name: shared(0.80, 0.79, together=0.80) for name in ("nsa-id 5", "coefficients 500")},
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
        ({"cifar10, nsa 500": {"spearman": [0.9, None]}}, [2]),  # better in the mean, but the interval is wide
        # those with coefficients of their own count, as in figure 4
        ({"cifar10, coefficients 500": {"ensemble.10.accuracy": 0.792}}, [3]),
        ({"cifar10, nsa-i 500": {"ensemble.10.accuracy": 0.81}}, [3]),
        ({"cifar10, nsa-id 5": {"ensemble.10.accuracy": 0.5}}, []),
        ({"cifar10, nsa-i 5": {"seen_auc": 0.85}}, [4]),
        ({"fashion_mnist, nsa-i 5000": {"seen_auc": 0.7}}, [5]),
        ({"fashion_mnist, nsa-i 50": {"seen_auc": 0.2}, "cifar10, nsa 500": {"seen_auc": 1.0}}, []),
    ],
)
def test_verdicts_on_shared_weights(changes: Changes, failing: list[int]) -> None:
    assert SHARED_MADE_UP.failing(changes) == failing


def test_numbers_on_shared_weights() -> None:
    changes = {"cifar10, nsa 500": {"spearman": [0.1, 0.3]}}
    variance, disparity, order, gained, few, many = SHARED_MADE_UP.claims(changes)
    assert "Fashion-MNIST: 0.0200 +- 0.0000 against 0.0010 +- 0.0000" in variance.numbers
    assert "Fashion-MNIST: 10.0000 +- 0.0000 against 1.0000 +- 0.0000" in disparity.numbers
    assert "CIFAR-10: 0.6000 +- 0.0000 against 0.2000 +- 0.1414" in order.numbers
    assert "gain of coefficients 500 minus that of nsa-i 500, points 0.700" in gained.numbers
    for one in (few, many):
        assert "CIFAR-10, S = 500: 0.57 +- 0.00; CIFAR-10, S = 5000: 0.52" in one.numbers
    assert [claim.number for claim in (variance, disparity, order, gained, few, many)] == [1, 1, 1, 2, 3, 3]
    assert few.ours and many.ours


def test_a_part_of_the_results_is_judged_as_far_as_it_goes() -> None:
    runs = {name: run for name, run in SHARED_MADE_UP.runs({}).items() if "nsa-i 500 " in name}
    claims = SHARED.judge(SHARED_MADE_UP.settings, runs)
    assert len(claims) == 6 and all(claim.supported is None for claim in claims)
    assert SHARED.tables(SHARED_MADE_UP.settings, runs) and SHARED.figures(SHARED_MADE_UP.settings, runs)


def test_gaps_and_gains() -> None:
    assert gap({"batch": [0.9, 0.7], "running": [0.5, 0.7]}) == pytest.approx(20.0)
    assert gap({"batch": [0.5], "running": [0.75]}) == pytest.approx(-25.0)
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


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nsa-i 5", "nsa-id 5"])
def test_made_up_runs_have_the_form_of_real_ones(method: str, tmp_path: Path) -> None:
    require_same_form(SHARED, SHARED_RUNS[method], f"digits, {method} seed 0", tmp_path)


@pytest.mark.slow
def test_a_run_agrees_with_itself(tmp_path: Path) -> None:
    settings = SHARED.presets["quick"]
    found = SHARED.task(settings, ("digits, nsa-i 5", 0), tmp_path)
    assert len(found["curve"]) == settings["epochs"]
    assert len(found["batch"]) == len(found["running"]) == settings["methods"]["nsa-i 5"]["wirings"]
    assert len(found["unseen"]) == settings["judged"]
    assert found["ensemble"]["1"]["accuracy"] == pytest.approx(found["running"][0], abs=1e-5)
    pairs = [(seen, unseen) for seen in found["running"] for unseen in found["unseen"]]
    above = sum((seen > unseen) + (seen == unseen) / 2 for seen, unseen in pairs) / len(pairs)
    assert found["seen_auc"] == pytest.approx(above) and above != 0.5
