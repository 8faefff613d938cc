"""What made-up runs of `guided_draws` say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up_runs import DATA, Changes, MadeUp, Run, copied, named, panels

from polyarch.plugins import EXPERIMENTS
from polyarch_experiments.experiment import Settings
from polyarch_experiments.posterior_guided.gated_networks import FAMILIES, of_family
from polyarch_experiments.posterior_guided.guided_draws_claims import KINDS, counts, error, places

DRAWS = EXPERIMENTS["guided_draws"]
NOISE = ("calibration_floor", "calibration_low", "calibration_high")
MEASURES = ("mean_log_p", "mean_p", "accuracy", "calibration_error", *NOISE, "brier", "risk_area")


def measured(accuracy: float) -> Run:
    return {**dict.fromkeys(MEASURES, 0.05), "accuracy": accuracy, "mean_log_p": accuracy - 1}


def drawn(accuracy: float) -> Run:
    """The summary of some draws: the best of them has this accuracy, and 30 % of its channels are gone."""
    return {
        "test": measured(accuracy),
        "valid_accuracy": accuracy + 0.01,
        "mean_accuracy": accuracy - 0.05,
        "cost": {"parameters": 50_000, "macs": 2e6},
        "dropped_channels": 0.3,
        "dropped_operations": 0.12,
    }


def predicted(accuracy: float, auroc: float, *, together: bool = False) -> Run:
    """Of several draws, mutual information tells strange images by this; of one network, entropy does."""
    detection = {"auroc": 0.6, "aupr": 0.5, "fpr95": 0.4}
    scored = {"entropy": detection, "max_probability": detection}
    best = {("mutual_information" if together else "entropy"): {**detection, "auroc": auroc}}
    return {
        "test": measured(accuracy),
        "detection": {outside: {**scored, **best} for outside in ("mnist", "fashion_mnist")},
    }


FOUND: Run = {
    "keep_rate": 0.72,
    "drop": {"first": 0.1, "second": 0.3, "third": 0.44},
    "guided": drawn(0.90),
    "flat": drawn(0.80),
    "random": drawn(0.86),
    "reestimated": {"guided": 0.86, "flat": 0.82, "random": 0.83},
    "tuned": {"guided": measured(0.905), "random": measured(0.88)},
    "all_kept": measured(0.895),
    "alone": measured(0.89),
    "plain": {"test": measured(0.885), "cost": {"parameters": 60_000, "macs": 1.9e6}},
    "full_cost": {"parameters": 80_000, "macs": 3e6},
    "best_of": {
        kind: {str(count): accuracy + gain for count, gain in ((1, 0.0), (8, 0.01), (64, 0.02))}
        for kind, accuracy in (("guided", 0.88), ("flat", 0.70), ("random", 0.84))
    },
    "prediction": {
        "mixture": predicted(0.91, 0.95, together=True),
        "best": predicted(0.90, 0.85),
        "alone": predicted(0.89, 0.90),
    },
}
"""As the document has it."""
SETTINGS: Settings = {
    "data": DATA,
    "seeds": {"MI": 3, "M": 2},
    "best_of": [1, 8, 64],
    "members": 10,
    "prior_examples": 500_000,
    "outside": {"fashion_mnist": ["mnist"], "cifar10": ["fashion_mnist"]},
}
MADE_UP = MadeUp(DRAWS, SETTINGS, {"MI": FOUND, "M": FOUND})


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, []),
        ({"cifar10, M": {"flat.test.accuracy": 0.90}}, [0]),  # equal is not better
        ({"fashion_mnist, MI": {"flat.test.accuracy": 0.95}}, [0]),
        ({"fashion_mnist, MI": {"flat.mean_accuracy": 0.99, "flat.valid_accuracy": 0.99}}, []),
        ({"cifar10, MI": {"random.test.accuracy": 0.91}}, [1]),
        ({"fashion_mnist, M": {"tuned.random.accuracy": 0.91}}, [2]),
        ({"fashion_mnist, M": {"tuned.guided.accuracy": 0.1}}, []),
        ({"cifar10, MI": {"alone.accuracy": 0.91}}, [3]),
        ({"cifar10, MI": {"all_kept.accuracy": 0.99}}, []),
        ({"cifar10, MI": {"plain.test.accuracy": 0.91}}, [4]),
        ({"cifar10, MI": {"best_of.guided.64": 0.87}}, [5]),
        ({"cifar10, MI": {"best_of.guided.1": 0.90}}, [5]),  # no change is no help
        ({"cifar10, MI": {"best_of.guided.8": 0.1, "best_of.random.64": 0.1}}, []),
        ({"cifar10, M": {"reestimated.flat": 0.87}}, [7]),
        ({"fashion_mnist, MI": {"reestimated.random": 0.86}}, [7]),
        ({"cifar10, M": {"prediction.mixture.test.accuracy": 0.90}}, [8]),
        ({"cifar10, M": {"prediction.best.test.accuracy": 0.99}}, []),  # the best draw has been judged already
        ({"fashion_mnist, MI": {"prediction.mixture.detection.mnist.mutual_information.auroc": 0.9}}, [9]),
        ({"cifar10, M": {"prediction.alone.detection.fashion_mnist.entropy.auroc": 0.96}}, [9]),
        ({"cifar10, M": {"prediction.alone.detection.mnist.entropy.auroc": 0.96}}, []),  # not among these
        ({"cifar10, M": {"prediction.mixture.detection.fashion_mnist.entropy.auroc": 0.1}}, []),
        ({"cifar10, MI": {"guided.test.accuracy": 0.7}}, [0, 1, 2, 3, 4]),
        # where nothing is dropped draws are all one network, which may still be worse than those trained alone
        ({"cifar10, M": {"keep_rate": 0.995, "guided.test.accuracy": 0.7, "reestimated.flat": 0.99}}, [3, 4]),
        ({"cifar10, M": {"keep_rate": [0.995, 0.98], "flat.test.accuracy": 0.99}}, [0]),  # by the mean over seeds
    ],
)
def test_verdicts_on_draws(changes: Changes, failing: list[int]) -> None:
    verdicts = [claim.supported for claim in MADE_UP.claims(changes)]
    assert verdicts == [position not in failing for position in range(10)]


@pytest.mark.parametrize(
    ("changes", "undecided"),
    [
        ({"cifar10, MI": {"random.test.accuracy": [0.95, 0.86, 0.86]}}, 1),  # the interval reaches over 0
        ({"fashion_mnist, M": {"guided.dropped_channels": [0.18, 0.44]}}, 6),
        ({"fashion_mnist, M": {"guided.dropped_channels": 0.45}}, 6),  # small networks do not decide it
    ],
)
def test_undecided_on_draws(changes: Changes, undecided: int) -> None:
    assert [claim.supported for claim in MADE_UP.claims(changes)].index(None) == undecided


def test_results_with_the_earlier_prior_decide_nothing() -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != "prior_examples"}
    earlier = {name: part for name, part in FOUND.items() if name != "plain"}
    claims = MadeUp(DRAWS, settings, {"MI": earlier, "M": earlier}).claims({})
    assert [claim.supported for claim in claims] == [None] * 9
    assert all(claim.needs and "d^2 / N of 3e-4 for MI" in claim.needs for claim in claims)


def test_numbers_on_draws() -> None:
    changes: Changes = {
        "cifar10, MI": {"guided.test.accuracy": [0.899, 0.90, 0.901], "guided.dropped_channels": [0.29, 0.3, 0.31]},
        "fashion_mnist, M": {"best_of.guided.64": [0.9099, 0.9101]},
    }
    claims = MADE_UP.claims(changes)
    assert [claim.number for claim in claims] == [1, 1, 1, 1, 1, 3, 4, None, None, None]
    assert [claim.supported for claim in claims] == [True] * 10
    assert "CIFAR-10 MI: 10.00 +- 0.10 % (guided), 20.00 +- 0.00 % (flat)" in claims[0].numbers
    assert "Fashion-MNIST M: 10.00 +- 0.00 % (guided), 14.00 +- 0.00 % (random)" in claims[1].numbers
    assert "12.00 +- 0.00 % (random, tuned)" in claims[2].numbers
    assert "11.00 +- 0.00 % (alone)" in claims[3].numbers
    assert "11.50 +- 0.00 % (plain)" in claims[4].numbers
    assert "Fashion-MNIST M: 12.00 +- 0.00 % for 1, 9.00 +- 0.01 % for 64" in claims[5].numbers
    assert "CIFAR-10 MI, % of channels 30.00 (27.52 to 32.48, holds)" in claims[6].numbers
    assert "CIFAR-10 MI: 12 +- 0 %" in claims[6].numbers
    assert "CIFAR-10 MI -10.00 (-10.25 to -9.75, holds)" in claims[0].numbers
    own = "Fashion-MNIST M: 14.00 +- 0.00 % (guided), 18.00 +- 0.00 % (flat), 17.00 +- 0.00 % (random)"
    assert own in claims[7].numbers
    assert "10 draws together" in claims[8].text
    assert "Fashion-MNIST M: 9.00 +- 0.00 % (mixture), 10.00 +- 0.00 % (guided)" in claims[8].numbers
    strange = "CIFAR-10 M against Fashion-MNIST: 0.95 +- 0.00 (mutual information of draws), 0.90 +- 0.00 (entropy of"
    assert strange in claims[9].numbers
    assert [claim.document == "not in the paper" for claim in claims] == [False] * 7 + [True] * 3


def test_errors_of_every_kind() -> None:
    found = [error(FOUND, kind) for kind in ("alone", "all kept", *KINDS, "random, tuned", "plain", "mixture")]
    assert found == pytest.approx([11, 10.5, 10, 20, 14, 12, 11.5, 9])


def test_where_nothing_is_dropped_is_said() -> None:
    whole = {family: {**copied(FOUND), "keep_rate": 0.999} for family in ("MI", "M")}
    claims = MadeUp(DRAWS, SETTINGS, whole).claims({})
    assert [claim.supported for claim in claims[:5]] == [None] * 3 + [True] * 2 and claims[7].supported is None
    assert claims[0].numbers.count("not counted: nothing is dropped") == 4 and "not counted" not in claims[3].numbers


def test_without_strange_images_detection_is_not_judged() -> None:
    settings = {**SETTINGS, "outside": {"fashion_mnist": [], "cifar10": []}}
    made_up = MadeUp(DRAWS, settings, {"MI": FOUND, "M": FOUND})
    detection = made_up.claims({})[9]
    assert detection.supported is None and detection.numbers == "no strange images at this size"
    assert {row[-1] for row in named(made_up.tables({}), "Predictions").rows} == {"-"}


def test_runs_of_every_place() -> None:
    assert counts(SETTINGS) == {f"{data}, {family}": seeds for data in DATA for family, seeds in (("MI", 3), ("M", 2))}
    assert places(SETTINGS) == [(data, family) for data in DATA for family in ("MI", "M")]
    items = list(DRAWS.items(SETTINGS))
    assert len(items) == 2 * 5
    assert items[:6] == [f"{data}, MI seed {seed}" for seed in range(3) for data in DATA]  # most seeds first
    for preset in DRAWS.presets.values():  # so that the best of so many can be drawn from them
        most = [of_family(preset, family)["candidates"] for family in preset["seeds"]]
        assert preset["best_of"][-1] == max(most) and preset["best_of"] == sorted(preset["best_of"])
        assert preset["members"] <= preset["candidates"] and set(most) <= set(preset["best_of"])
        assert set(preset["outside"]) == set(preset["data"])


def test_tables_of_draws() -> None:
    tables = MADE_UP.tables({"cifar10, MI": {"random.cost": {"parameters": 40_000, "macs": 1e6}}})
    assert len(tables) == 5
    errors, candidates, dropped, predictions = (
        named(tables, start) for start in ("Test error", "Expected", "What was dropped", "Predictions")
    )
    statistics = named(tables, "Mean test error")
    assert len(statistics.rows) == 4 * 3
    assert statistics.rows[1] == [
        "Fashion-MNIST", "MI", "one rate, the same weights", "25.00 +- 0.00", "18.00 +- 0.00",
    ]  # fmt: skip
    assert [len(table.rows) for table in (errors, candidates, dropped, predictions)] == [4 * 9, 4 * 3, 4, 4 * 3]
    exact = "+- 0.00"
    assert errors.rows[0] == [
        "Fashion-MNIST", "MI", "whole network, trained alone", f"11.00 {exact}", "80.0 +- 0.0", f"3.00 {exact}", "3",
    ]  # fmt: skip
    rows = {(row[0], row[1], row[2]): row[3:] for row in errors.rows}
    assert len(rows) == 4 * 9
    assert rows["CIFAR-10", "MI", "random, tuned"] == [f"12.00 {exact}", "40.0 +- 0.0", f"1.00 {exact}", "3"]
    assert rows["CIFAR-10", "M", "guided"] == [f"10.00 {exact}", "50.0 +- 0.0", f"2.00 {exact}", "2"]
    assert rows["CIFAR-10", "M", "mixture"] == [f"9.00 {exact}", "10 draws", "10 draws", "2"]
    assert candidates.columns[-3:] == ["1", "8", "64"]
    assert candidates.rows[1] == [
        "Fashion-MNIST", "MI", "one rate, the same weights", *(f"{value}.00 {exact}" for value in (30, 29, 28)),
    ]  # fmt: skip
    assert dropped.rows[-1] == ["CIFAR-10", "M", *(f"{value} +- 0.0" for value in ("28.0", "30.0", "12.0", "62.5")),
                                "66.7 +- 0.0"]  # fmt: skip
    error = "0.0500 +- 0.0000; 0.0500; 0.0500 to 0.0500"
    assert predictions.rows[0] == [
        "Fashion-MNIST", "MI", "whole network, trained alone", f"89.00 {exact}", "-0.110 +- 0.000", error,
        f"0.90 {exact} (MNIST)",
    ]  # fmt: skip
    assert predictions.rows[5][2:] == [
        "10 draws", f"91.00 {exact}", "-0.090 +- 0.000", error, f"0.95 {exact} (MNIST)"
    ]  # fmt: skip
    assert predictions.rows[-2][2] == "best draw" and predictions.rows[-2][-1] == f"0.85 {exact} (Fashion-MNIST)"


def test_figures_of_draws() -> None:
    changes: Changes = {
        "fashion_mnist, M": {"guided.test.accuracy": [0.88, 0.92], "best_of.flat.8": [0.70, 0.74], "drop.second": 0.5}
    }
    figures = MADE_UP.figures(changes)
    assert list(figures) == ["guided_errors", "guided_candidates", "guided_drops"]
    bars = panels(figures["guided_errors"])
    assert [panel["title"] for panel in figures["guided_errors"]["concat"]] == ["Fashion-MNIST", "CIFAR-10"]
    assert [len(rows) for rows in bars] == [2 * 7] * 2
    assert [row["mean"] for row in bars[1][:7]] == pytest.approx([10, 20, 14, 9.5, 12, 11.5, 11])
    std = pytest.approx(10 - 8**0.5), pytest.approx(10 + 8**0.5)
    assert bars[0][7] == {"x": "M", "series": "guided", "mean": pytest.approx(10), "low": std[0], "high": std[1]}
    curves = panels(figures["guided_candidates"])
    assert [len(rows) for rows in curves] == [3 * 3] * 4
    assert [(row["x"], row["mean"]) for row in curves[1][3:6]] == [
        (1, pytest.approx(30)), (8, pytest.approx(28)), (64, pytest.approx(28)),
    ]  # fmt: skip
    assert [panel["title"] for panel in figures["guided_drops"]["concat"]] == [
        "Fashion-MNIST MI", "Fashion-MNIST M", "CIFAR-10 MI", "CIFAR-10 M",
    ]  # fmt: skip
    drops = panels(figures["guided_drops"])
    assert [[(row["x"], row["mean"]) for row in rows] for rows in drops[:2]] == [
        [(1, pytest.approx(0.1)), (2, pytest.approx(0.3)), (3, pytest.approx(0.44))],
        [(1, pytest.approx(0.1)), (2, pytest.approx(0.5)), (3, pytest.approx(0.44))],
    ]


def form(run: Run) -> Any:
    """Names of fields, up to those of layers, numbers of candidates and strange images."""
    found = keys(run)
    return {
        **found,
        "drop": None,
        "best_of": list(found["best_of"]),
        "prediction": {
            kind: {**part, "detection": next(iter(part["detection"].values()))}
            for kind, part in found["prediction"].items()
        },
    }


def keys(value: Any) -> Any:
    return {key: keys(part) for key, part in value.items()} if isinstance(value, dict) else None


SHORT: Settings = {
    **DRAWS.presets["quick"], "train": 40, "valid": 20, "test": 30, "width": 2, "batch_size": 20,
    "outside": {"digits": ["digits"]},
}  # fmt: skip


def test_other_families_are_compared_in_the_same_way() -> None:
    families = EXPERIMENTS["guided_families"]
    assert set(families.presets["cpu"]["seeds"]) | set(DRAWS.presets["cpu"]["seeds"]) <= set(FAMILIES)
    settings = {**SETTINGS, "seeds": {"R": 1, "E": 2}}
    made_up = MadeUp(families, settings, {"R": FOUND, "E": FOUND})
    assert [claim.text for claim in made_up.claims({})] == [claim.text for claim in MADE_UP.claims({})]
    (bars,) = made_up.figures({}).values()
    assert [{row["x"] for row in rows} for rows in panels(bars)] == [{"R", "E"}] * 2
    for preset in families.presets.values():
        assert max(preset["best_of"]) <= preset["candidates"] and preset["members"] <= preset["candidates"]


def test_a_real_run(tmp_path: Path) -> None:
    """It has the form of the made-up ones, agrees with itself, and can be judged and shown."""
    run = DRAWS.task(SHORT, ("digits, M", 0), tmp_path)
    assert list(run) == list(FOUND) and form(run) == form(FOUND)
    assert 0 < run["keep_rate"] < 1 and all(0 < p < 1 for p in run["drop"].values())
    for kind in KINDS:
        best = run["best_of"][kind]
        assert best["1"] == pytest.approx(run[kind]["mean_accuracy"])
        assert best["3"] == pytest.approx(run[kind]["test"]["accuracy"])
    assert run["prediction"]["best"]["test"]["accuracy"] == run["guided"]["test"]["accuracy"]
    assert run["prediction"]["alone"]["test"]["accuracy"] == run["alone"]["accuracy"]
    for part in run["prediction"].values():  # the same images are no stranger than themselves
        assert part["detection"]["digits"]["entropy"]["auroc"] == pytest.approx(0.5, abs=0.02)
    assert run["guided"]["cost"]["parameters"] < run["full_cost"]["parameters"]
    assert 0 < run["plain"]["cost"]["macs"] <= run["guided"]["cost"]["macs"]
    settings = {**SHORT, "seeds": {"M": 1}}
    runs = {"digits, M seed 0": copied(run)}
    assert len(DRAWS.judge(settings, runs)) == 10
    assert len(DRAWS.tables(settings, runs)) == 5 and len(DRAWS.figures(settings, runs)) == 3
