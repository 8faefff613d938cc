"""Charts are valid and show the numbers of the results."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from rendered import charts_of, page_of, rows

from polyarch.results import TrainingRecord

altair = pytest.importorskip("altair", reason="needs the extra 'report'")
vl_convert = pytest.importorskip("vl_convert", reason="needs the extra 'report'")

NAMES = (
    *("cell", "table", "numbers", "labels", "own", "depth", "spirals", "photos", "baseline"),
    *("differentiable", "stochastic", "guided", "hostile"),
)


@pytest.fixture
def examples() -> Any:
    """The module of example results."""
    return importlib.import_module("report_examples")


@pytest.mark.parametrize("name", NAMES)
def test_specifications_are_valid(examples: Any, name: str) -> None:
    for spec in charts_of(examples.RUNS[name]()).values():
        assert altair.Chart.from_dict(spec).to_dict()["width"] == "container"
        assert "config" not in spec


def test_specifications_compile_with_hostile_names(examples: Any) -> None:
    for spec in charts_of(examples.hostile_results()).values():
        assert vl_convert.vegalite_to_vega(spec)["marks"]


def test_contenders_show_means_and_every_run(examples: Any) -> None:
    results = examples.cell_results()
    spec = charts_of(results)["contenders"]
    shown = {name: (mean, low, high) for name, mean, low, high in rows(spec, "name", "mean", "low", "high")}
    for contender in results.comparison:
        mean, low, high = shown[contender.name]
        assert mean == contender.mean
        assert contender.mean - 0.02 < low < contender.mean < high < contender.mean + 0.02
        runs = [value for name, value in rows(spec, "name", "score") if name == contender.name]
        assert runs == [run.score for run in contender.runs]
    assert shown["ensemble of 5"][0] == results.predictors[1].score


def test_curves_show_the_history(examples: Any) -> None:
    results = examples.cell_results()
    found = charts_of(results)
    history = results.training.history
    losses = [(row["epoch"], row["loss"]) for row in history]
    valid = [(row["epoch"], row["valid_loss"]) for row in history]
    values = rows(found["supernet"], "series", "epoch", "value")
    assert [(epoch, value) for series, epoch, value in values if series == "training loss"] == losses
    assert [(epoch, value) for series, epoch, value in values if series == "validation loss"] == valid
    for run in results.comparison[0].runs:
        values = rows(found["retraining-score"], "seed", "epoch", "value")
        expected = [(row["epoch"], row["valid_accuracy"]) for row in run.history]
        assert [(epoch, value) for seed, epoch, value in values if seed == run.seed] == expected


def test_values_that_are_not_finite_are_gaps(examples: Any) -> None:
    results = examples.unfinished_results()
    results.training.history[3]["loss"] = float("inf")
    values = rows(charts_of(results)["supernet"], "epoch", "series", "value")
    assert (3.0, "training loss", None) in values


def test_long_curves_are_thinned_from_their_first_to_their_last_epoch(examples: Any) -> None:
    results = examples.cell_results()
    results.training.history = examples.history(5000)
    found = rows(charts_of(results)["supernet"], "epoch", "series", "value")
    for key, series in (("loss", "training loss"), ("valid_loss", "validation loss")):
        points = [(epoch, value) for epoch, name, value in found if name == series]
        assert len(points) == 400
        assert (points[0][0], points[-1][0]) == (0.0, 4999.0)
        assert set(points) <= {(row["epoch"], row[key]) for row in results.training.history}


def test_a_learned_distribution_is_shown_as_it_is(examples: Any) -> None:
    results = examples.depth_results()
    assert [share for _, share in rows(charts_of(results)["options"], "option", "share")] == results.training.q["depth"]
    q = {name: [0.1, 0.2, 0.3, 0.4, 0.0] for name in examples.CELL}
    results = examples.cell_results(training=TrainingRecord(strategy="variational", history=[], q=q))
    found = charts_of(results)
    assert "options-all" not in found
    assert ("0->1", "nor_conv_3x3", 0.4) in rows(found["options"], "choice", "option", "share")


def test_reliability_and_risk_show_the_records(examples: Any) -> None:
    results = examples.cell_results()
    found = charts_of(results)
    for one in results.predictors:
        bins = [(one.name, b.confidence, b.accuracy, b.count) for b in one.reliability if b.count]
        values = rows(found["reliability"], "predictor", "confidence", "accuracy", "count")
        assert [value for value in values if value[0] == one.name] == bins
        points = [(one.name, *point) for point in zip(one.coverage, one.risk, strict=True)]
        assert [
            value for value in rows(found["risk"], "predictor", "coverage", "risk") if value[0] == one.name
        ] == points
        assert (one.name, 1 - one.flagged, one.threshold) in rows(found["risk"], "predictor", "coverage", "threshold")


def test_members_are_listed_by_weight(examples: Any) -> None:
    results = examples.cell_results()
    ensemble = results.predictors[1]
    ensemble.weights = ensemble.weights[::-1]
    page = page_of(results)
    section = page[page.index("Members of ensemble of 5") : page.index("Members of ensemble of random")]
    heaviest = "|<wbr>".join(ensemble.members[-1].values())
    assert f'<td class="key">{heaviest}</td><td class="number">0.438</td>' in section
    widths = [float(part.partition("%")[0]) for part in section.split("width: ")[1:]]
    assert widths == sorted(widths, reverse=True) and widths[0] == 100.0
