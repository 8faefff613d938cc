"""Charts are valid and show the numbers of the results."""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest
from polyarch.reports.distribution import distributions
from polyarch.reports.searched import best_quarter, front, ordered

from polyarch.reports.tables import memberships, top
from polyarch.results import TrainingRecord

altair = pytest.importorskip("altair", reason="needs the extra 'report'")
vl_convert = pytest.importorskip("vl_convert", reason="needs the extra 'report'")

NAMES = ("cell", "table", "own", "depth", "spirals", "photos", "baseline", "hostile")


@pytest.fixture
def examples() -> Any:
    """The module of example results."""
    return importlib.import_module("report_examples")


def charts(results: Any) -> dict[str, Any]:
    from polyarch.reports.charts import charts

    return charts(results)


def rows(spec: dict[str, Any], *keys: str) -> list[tuple[Any, ...]]:
    """These values of all rows that have them, in every data set of a chart."""
    every = [row for values in spec["datasets"].values() for row in values]
    return [tuple(row[key] for key in keys) for row in every if all(key in row for key in keys)]


@pytest.mark.parametrize("name", NAMES)
def test_specifications_are_valid(examples: Any, name: str) -> None:
    for spec in charts(examples.RUNS[name]()).values():
        assert altair.Chart.from_dict(spec).to_dict()["width"] == "container"
        assert "config" not in spec


def test_specifications_compile_with_hostile_names(examples: Any) -> None:
    for spec in charts(examples.hostile_results()).values():
        assert vl_convert.vegalite_to_vega(spec)["marks"]


@pytest.mark.parametrize(("smallest", "scale"), [(500, "log"), (5000, "linear"), (0, "linear")])
def test_sizes_of_many_magnitudes_get_a_logarithmic_scale(examples: Any, smallest: int, scale: str) -> None:
    results = examples.cell_results()
    results.search.evaluated[3].parameters = smallest
    layers = charts(results)["sizes"]["layer"]
    assert {layer["encoding"]["x"]["scale"].get("type", "linear") for layer in layers} == {scale}


def test_contenders_show_means_and_every_run(examples: Any) -> None:
    results = examples.cell_results()
    spec = charts(results)["contenders"]
    shown = {name: (mean, low, high) for name, mean, low, high in rows(spec, "name", "mean", "low", "high")}
    for contender in results.comparison:
        mean, low, high = shown[contender.name]
        assert mean == contender.mean
        assert (low, high) == (contender.mean - contender.std, contender.mean + contender.std)
        runs = [value for name, value in rows(spec, "name", "accuracy") if name == contender.name]
        assert runs == [run.accuracy for run in contender.runs]
    assert shown["ensemble of 5"][0] == results.predictors[1].accuracy


def test_curves_show_the_history(examples: Any) -> None:
    results = examples.cell_results()
    found = charts(results)
    history = results.training.history
    losses = [(row["epoch"], row["loss"]) for row in history]
    valid = [(row["epoch"], row["valid_loss"]) for row in history]
    values = rows(found["supernet"], "series", "epoch", "value")
    assert [(epoch, value) for series, epoch, value in values if series == "training loss"] == losses
    assert [(epoch, value) for series, epoch, value in values if series == "validation loss"] == valid
    for run in results.comparison[0].runs:
        values = rows(found["retraining-accuracy"], "seed", "epoch", "value")
        expected = [(row["epoch"], row["valid_accuracy"]) for row in run.history]
        assert [(epoch, value) for seed, epoch, value in values if seed == run.seed] == expected


def test_values_that_are_not_finite_are_gaps(examples: Any) -> None:
    results = examples.unfinished_results()
    results.training.history[3]["loss"] = float("inf")
    values = rows(charts(results)["supernet"], "epoch", "series", "value")
    assert (3.0, "training loss", None) in values


def test_long_curves_are_thinned_from_their_first_to_their_last_epoch(examples: Any) -> None:
    results = examples.cell_results()
    results.training.history = examples.history(5000)
    found = rows(charts(results)["supernet"], "epoch", "series", "value")
    for key, series in (("loss", "training loss"), ("valid_loss", "validation loss")):
        points = [(epoch, value) for epoch, name, value in found if name == series]
        assert len(points) == 400
        assert (points[0][0], points[-1][0]) == (0.0, 4999.0)
        assert set(points) <= {(row["epoch"], row[key]) for row in results.training.history}


def test_scores_against_size_show_every_architecture_once(examples: Any) -> None:
    results = examples.cell_results()
    results.search.evaluated.append(results.search.evaluated[0])
    spec = charts(results)["sizes"]
    keys = {"|".join(item.architecture.values()): item for item in results.search.evaluated}
    found = rows(spec, "architecture", "parameters", "score")
    assert {key for key, _, _ in found} == set(keys)
    for key, parameters, score in found:
        assert (parameters, score) == (keys[key].parameters, keys[key].score("sotl"))
    assert (results.search.limits["params"],) in rows(spec, "parameters")
    sizes = {len(values) for values in spec["datasets"].values()}
    assert len(keys) in sizes


def test_a_limit_far_away_does_not_squeeze_the_points(examples: Any) -> None:
    results = examples.cell_results()
    results.search.limits["params"] = 1e9
    assert (1e9,) not in rows(charts(results)["sizes"], "parameters")


@pytest.mark.parametrize("maximise", [True, False])
def test_front_against_brute_force(maximise: bool) -> None:
    generator = random.Random(0)
    for _ in range(200):
        count = generator.randrange(1, 12)
        sizes = [generator.randrange(6) for _ in range(count)]
        scores = [float(generator.randrange(6)) for _ in range(count)]
        gains = [score if maximise else -score for score in scores]
        undominated = {
            (sizes[i], scores[i])
            for i in range(count)
            if not any(
                sizes[j] <= sizes[i] and gains[j] >= gains[i] and (sizes[j], gains[j]) != (sizes[i], gains[i])
                for j in range(count)
            )
        }
        found = [(sizes[i], scores[i]) for i in front(sizes, scores, maximise=maximise)]
        assert set(found) == undominated
        assert found == sorted(undominated)


def test_shares_of_options_among_the_best_quarter_and_all(examples: Any) -> None:
    results = examples.own_results()
    items = ordered(results.search)
    best, everything = distributions(results)
    for shares, among in ((best, best_quarter(items)), (everything, items)):
        assert len(among) in (-(-len(items) // 4), len(items))
        for share in shares.shares:
            taken = sum(item.architecture[share.choice] == share.option for item in among)
            assert share.share == taken / len(among)
    found = charts(results)
    assert rows(found["options"], "choice", "option", "share") == [
        (share.choice, share.option, share.share) for share in best.shares
    ]
    scores = [item.score("sotl") for item in items]
    assert scores == sorted(scores, reverse=True)


def test_a_learned_distribution_is_shown_as_it_is(examples: Any) -> None:
    results = examples.depth_results()
    assert [share for _, share in rows(charts(results)["options"], "option", "share")] == results.training.q["depth"]
    q = {name: [0.1, 0.2, 0.3, 0.4, 0.0] for name in examples.CELL}
    results = examples.cell_results(training=TrainingRecord(strategy="variational", history=[], q=q))
    found = charts(results)
    assert "options-all" not in found
    assert ("0->1", "nor_conv_3x3", 0.4) in rows(found["options"], "choice", "option", "share")


def test_reliability_and_risk_show_the_records(examples: Any) -> None:
    results = examples.cell_results()
    found = charts(results)
    for one in results.predictors:
        bins = [(one.name, b.confidence, b.accuracy, b.count) for b in one.reliability if b.count]
        values = rows(found["reliability"], "predictor", "confidence", "accuracy", "count")
        assert [value for value in values if value[0] == one.name] == bins
        points = [(one.name, *point) for point in zip(one.coverage, one.risk, strict=True)]
        assert [
            value for value in rows(found["risk"], "predictor", "coverage", "risk") if value[0] == one.name
        ] == points
        assert (one.name, 1 - one.flagged, one.threshold) in rows(found["risk"], "predictor", "coverage", "threshold")


def test_table_of_the_top(examples: Any) -> None:
    results = examples.cell_results()
    table = top(results)
    assert table is not None
    assert table.headings[:3] == ("#", "architecture", "parameters")
    assert "parameters" not in table.headings[3:]
    assert len(table.lines) == 20
    assert [line.is_best for line in table.lines] == [True] + [False] * 19
    items = ordered(results.search)[:20]
    assert [line.cells[3].number for line in table.lines] == [item.score("sotl") for item in items]
    items[1].truth = 0.9
    known = top(results)
    assert known is not None
    assert known.headings[-1] == "truth"
    assert [line.cells[-1].number for line in known.lines[:3]] == [None, 0.9, None]
    assert top(examples.unfinished_results()) is None


def test_members_are_listed_by_weight(examples: Any) -> None:
    ensemble = examples.cell_results().predictors[1]
    members = memberships(ensemble)
    assert [member.weight for member in members] == sorted(ensemble.weights, reverse=True)
    assert members[0].bar == 1.0
