"""The pages of all methods for runs that predict numbers or labels: no accuracies, and no negative errors."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from rendered import charts_of, page_of, plain, rows

from polyarch.methods.depth.record import DepthRecord
from polyarch.methods.posterior_guided.record import GuidedRecord
from polyarch.methods.stochastic.record import StochasticRecord
from polyarch.results import Results


@pytest.fixture
def examples() -> Any:
    """The module of example results."""
    return importlib.import_module("report_examples")


def with_errors(results: Results) -> Results:
    """The record of the method with errors in place of accuracies, negated where higher is better."""
    record = results.record
    if isinstance(record, DepthRecord):
        for depth in record.depths:
            depth.score, depth.valid_score = 2 * (1 - depth.score), 2 * (1 - depth.valid_score)
        for way in record.predictors:
            way.score, way.valid_score = 2 * (1 - way.score), 2 * (1 - way.valid_score)
            way.mean_probability, way.metrics = None, {}
        record.exits, record.exit_confidence, record.functions = [], None, None
    if isinstance(record, StochasticRecord):
        for member in record.members:
            member.score = 2 * (1 - member.score)
        for point in record.curve:
            point.score, point.calibration_error = 2 * (1 - point.score), None
        assert record.statistics is not None
        for side in (record.statistics.batch, record.statistics.running):
            side[:] = [-2 * (1 - value) for value in side]
        record.corrupted = {}
    if isinstance(record, GuidedRecord):
        for draw in (*record.guided, *record.random):
            draw.score = -2 * (1 - draw.score)
    return results


@pytest.mark.parametrize(
    "name", ["cell", "spirals", "baseline", "stochastic", "differentiable", "guided", "guided depth"]
)
def test_numbers_by_every_method(examples: Any, name: str) -> None:
    results = with_errors(examples.as_numbers(examples.RUNS[name]()))
    page = plain(page_of(results))
    assert "RMSE" in page and "Prediction intervals" in page
    for words in ("calibration error", "mean p<", "Rmse", "entropy in nats", "reliability", "Prediction sets"):
        assert words not in page, words
    for words in ("test accuracy", "validation accuracy"):
        assert words not in page.replace("true accuracy", ""), words
    for chart in charts_of(results).values():
        assert chart["width"] == "container"


@pytest.mark.parametrize("name", ["cell", "spirals", "stochastic", "guided"])
def test_labels_by_every_method(examples: Any, name: str) -> None:
    results = examples.as_labels(examples.RUNS[name]())
    if isinstance(results.record, DepthRecord):
        results.record.exits, results.record.functions = [], None  # only classes have them
    page = plain(page_of(results))
    assert "micro F1" in page and "Prediction sets" not in page and "test accuracy" not in page


def test_charts_of_draws_and_of_statistics_show_the_error_itself(examples: Any) -> None:
    guided = with_errors(examples.as_numbers(examples.guided_results()))
    assert isinstance(guided.record, GuidedRecord)
    shown = [score for (score,) in rows(charts_of(guided)["draws-macs"], "score")]
    assert min(shown) > 0
    assert min(shown) == pytest.approx(-max(draw.score for draw in guided.record.guided), abs=1e-6)
    stochastic = with_errors(examples.as_numbers(examples.stochastic_results()))
    assert isinstance(stochastic.record, StochasticRecord) and stochastic.record.statistics is not None
    found = [batch for (batch,) in rows(charts_of(stochastic)["norm-modes"], "batch")]
    assert min(found) == pytest.approx(0.06) and max(found) < 0.11
    words = "5 wirings reach a validation RMSE of 0.06800 on average; with running averages, as in use, 0.09200"
    assert words in plain(" ".join(page_of(stochastic).split()))
    assert "above it, running averages lose" in page_of(stochastic)
