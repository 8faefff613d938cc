"""What made-up runs of `guided_settings` say."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import DATA, Changes, MadeUp, Run, named, panels

from polyarch.methods.posterior_guided.search import PosteriorSearch
from polyarch.plugins import EXPERIMENTS
from polyarch_experiments.experiment import Settings
from polyarch_experiments.posterior_guided.guided_settings import usual, variants

GUIDED = EXPERIMENTS["guided_settings"]
NOISE = ("calibration_floor", "calibration_low", "calibration_high")
MEASURES = ("mean_log_p", "mean_p", "accuracy", "calibration_error", *NOISE, "brier", "risk_area")


def found(accuracy: float, parameters: int) -> Run:
    """The best draw of a variant."""
    return {
        "keep_rate": 0.7,
        "test": {**dict.fromkeys(MEASURES, 0.05), "accuracy": accuracy},
        "valid_accuracy": accuracy + 0.01,
        "mean_accuracy": accuracy - 0.05,
        "cost": {"parameters": parameters, "macs": 2e6},
        "dropped_channels": 0.3,
        "dropped_operations": 0.12,
    }


WARM = "temperature 0.666667"
RUNS = {
    "prior 5": found(0.89, 70_000),
    "prior 50": found(0.91, 50_000),
    "prior 150": found(0.90, 30_000),
    "prior 500": found(0.85, 10_000),
    "temperature 0.1": found(0.92, 49_000),
    WARM: found(0.88, 51_000),
    "temperature 0.2 EI": found(0.94, 60_000),
    "temperature 0.1 EI": found(0.94, 60_000),
    f"{WARM} EI": found(0.93, 60_000),
}
"""As the document has it; at a lower temperature than the usual one anything may happen."""
SETTINGS: Settings = {
    "data": DATA,
    "seeds": 2,
    "family": "MI",
    "square_length_scale": 50.0,
    "temperature": 0.2,
    "square_length_scales": [5.0, 50.0, 150.0, 500.0],
    "temperatures": [0.1, 2 / 3],
    "temperature_families": ["EI"],
    "prior_examples": 500_000,
    "train": 4000,
}
MADE_UP = MadeUp(GUIDED, SETTINGS, RUNS)


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, []),
        ({"cifar10, prior 150": {"cost.parameters": 50_000}}, [0]),  # equal is not smaller
        ({"cifar10, prior 500": {"cost.parameters": 40_000}}, [0]),
        ({f"cifar10, {WARM}": {"cost.parameters": 1}}, []),
        ({"fashion_mnist, prior 5": {"test.accuracy": 0.92}}, [1]),  # the minimum at the one end
        ({"fashion_mnist, prior 500": {"test.accuracy": 0.92}}, [1]),  # and at the other
        ({"fashion_mnist, prior 150": {"test.accuracy": 0.95}}, []),
        ({f"cifar10, {WARM}": {"test.accuracy": 0.91}}, [2]),
        ({f"cifar10, {WARM} EI": {"test.accuracy": 0.94}}, [2]),
        ({"cifar10, temperature 0.1": {"test.accuracy": 0.1}}, []),
        ({"cifar10, prior 50": {"test.accuracy": 0.87}}, [2]),  # the usual one is what others are compared with
    ],
)
def test_verdicts_on_settings(changes: Changes, failing: list[int]) -> None:
    verdicts = [claim.supported for claim in MADE_UP.claims(changes)]
    assert verdicts == [position not in failing for position in range(3)]


def test_wide_intervals_leave_settings_undecided() -> None:
    changes: Changes = {
        "cifar10, prior 5": {"cost.parameters": [40_000, 61_000]},
        f"cifar10, {WARM}": {"test.accuracy": [0.95, 0.80]},
    }
    assert [claim.supported for claim in MADE_UP.claims(changes)] == [None, True, None]


def test_numbers_on_settings() -> None:
    changes: Changes = {
        "cifar10, prior 50": {"test.accuracy": [0.90, 0.92], "cost.parameters": [49_000, 51_000]},
        f"fashion_mnist, {WARM}": {"test.accuracy": [0.87, 0.89]},
    }
    claims = MADE_UP.claims(changes)
    assert [claim.number for claim in claims] == [2, 2, 3]
    exact = "+- 0.00 %"
    sizes = "CIFAR-10: 70.0 +- 0.0 (5), 50.0 +- 1.4 (50), 30.0 +- 0.0 (150), 10.0 +- 0.0 (500)"
    assert sizes in claims[0].numbers
    errors = f"CIFAR-10: 11.00 {exact} (5), 9.00 +- 1.41 % (50), 10.00 {exact} (150), 15.00 {exact} (500)"
    assert errors in claims[1].numbers
    assert "A temperature of 0.2 is better" in claims[2].text
    assert f"Fashion-MNIST MI: 9.00 {exact} (0.2), 8.00 {exact} (0.1), 12.00 +- 1.41 % (0.67)" in claims[2].numbers
    assert f"CIFAR-10 EI: 6.00 {exact} (0.2), 6.00 {exact} (0.1), 7.00 {exact} (0.67)" in claims[2].numbers


def test_runs_of_every_variant() -> None:
    assert variants(SETTINGS) == list(RUNS) and usual(SETTINGS) == "prior 50"
    items = list(GUIDED.items(SETTINGS))
    assert len(items) == 2 * 9 * 2
    assert items[:9] == [f"fashion_mnist, {variant} seed 0" for variant in RUNS]
    for preset in GUIDED.presets.values():  # so that there is something to compare with, and something warmer
        assert usual(preset) in variants(preset)
        assert preset["square_length_scales"] == sorted(preset["square_length_scales"])
        assert any(value > preset["temperature"] for value in preset["temperatures"])


def test_tables_of_settings() -> None:
    (table,) = MADE_UP.tables({"cifar10, prior 5": {"mean_accuracy": [0.80, 0.84], "keep_rate": 0.9}}).values()
    assert named(MADE_UP.tables({}), "MI with d^2 = 50 unless").columns == table.columns
    assert [tuple(row[:2]) for row in table.rows] == [
        (data, variant) for data in ("Fashion-MNIST", "CIFAR-10") for variant in RUNS
    ]
    assert table.rows[9][2:] == [
        "11.00 +- 0.00", "18.00 +- 2.83", "70.0 +- 0.0", "2.00 +- 0.00", "10.0 +- 0.0", "12.0 +- 0.0",
    ]  # fmt: skip


def test_figures_of_settings() -> None:
    figures = MADE_UP.figures({"cifar10, prior 5": {"test.accuracy": [0.88, 0.92]}})
    assert list(figures) == ["guided_prior"]
    errors, sizes = panels(figures["guided_prior"])
    assert [row["x"] for row in errors] == [row["x"] for row in sizes] == [5.0, 50.0, 150.0, 500.0] * 2
    assert [row["mean"] for row in errors] == pytest.approx([11, 9, 10, 15, 10, 9, 10, 15])
    assert [row["mean"] for row in sizes] == pytest.approx([70, 50, 30, 10] * 2)
    assert errors[4] == {
        "x": 5.0, "series": "CIFAR-10", "mean": pytest.approx(10), "low": pytest.approx(10 - 8**0.5),
        "high": pytest.approx(10 + 8**0.5),
    }  # fmt: skip


SHORT: Settings = {
    **GUIDED.presets["quick"], "train": 40, "valid": 20, "test": 30, "width": 2, "batch_size": 20, "candidates": 2,
    "family": "M",
}  # fmt: skip


def test_a_real_run(tmp_path: Path) -> None:
    """It has the form of the made-up ones."""
    run = GUIDED.task(SHORT, ("digits, prior 5", 0), tmp_path)
    made_up = RUNS["prior 5"]
    assert list(run) == list(made_up)
    for name in ("test", "cost"):
        assert run[name].keys() == made_up[name].keys()
    settings = {**SHORT, "seeds": 1}
    runs = dict.fromkeys(GUIDED.items(settings), run)
    assert [claim.supported for claim in GUIDED.judge(settings, runs)] == [None] * 3  # one seed
    assert len(GUIDED.tables(settings, runs)) == len(GUIDED.figures(settings, runs)) == 1


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("prior 7", {"length_scale": 7**0.5}),
        ("temperature 0.5", {"temperature": 0.5}),
        ("temperature 0.5 E", {"temperature": 0.5}),
    ],
)
def test_a_variant_differs_in_one_thing(
    variant: str, expected: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Reached(Exception):
        pass

    searches: list[PosteriorSearch] = []

    def learn(settings: Settings, images: object, net: object, search: PosteriorSearch, *rest: object) -> None:
        searches.append(search)
        raise Reached

    monkeypatch.setattr("polyarch_experiments.posterior_guided.guided_settings.learn", learn)
    with pytest.raises(Reached):
        GUIDED.task(SHORT, (f"digits, {variant}", 0), tmp_path)
    usual_search = {"length_scale": SHORT["square_length_scale"] ** 0.5, "temperature": 0.2}
    changed = {name: getattr(searches[0], name) for name in usual_search}
    assert changed == pytest.approx({**usual_search, **expected})
