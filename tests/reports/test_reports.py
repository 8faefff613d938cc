"""The report is self-contained, complete and safe; drawings and axes are right."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from polyarch.jobs.settings import RunSettings
from polyarch.reports import draw
from polyarch.reports.html import render
from polyarch.reports.plots import Point, Series, curve, scatter
from polyarch.results import (
    Accuracy,
    Contender,
    RankingRecord,
    Results,
    ScoredArchitecture,
    ScoreRecord,
    SearchRecord,
    TrainingRecord,
)
from polyarch.spaces import nb201_space

HOSTILE = "<script>alert(1)</script>"
CELL = dict.fromkeys(nb201_space().choice_names, "nor_conv_3x3")


def scored(value: float) -> ScoredArchitecture:
    scores = [
        ScoreRecord(estimator="sotl", value=value, policy="batch"),
        ScoreRecord(estimator="params", value=1e5, policy=None),
    ]
    return ScoredArchitecture(architecture=CELL, scores=scores)


def results(**changes: Any) -> Results:
    run = Accuracy(architecture=CELL, seed=0, accuracy=0.9731, loss=0.1, calibration_error=0.01, valid_accuracy=0.9)
    interval = {"value": 0.5, "low": 0.1, "high": 0.8}
    quality = {"n": 3, **dict.fromkeys(("spearman", "kendall", "sparse_kendall", "pearson"), interval)}
    content: dict[str, Any] = {
        "polyarch": "0.1.0",
        "torch": "2",
        "settings": RunSettings().model_dump(mode="json"),
        "data": {"name": HOSTILE, "classes": ["a"], "input_shape": [1, 8, 8], "train": 9, "valid": 3, "test": 3},
        "space": {"name": "nb201", "kind": "nb201", "size": 15625, "choices": {}, "supernet_parameters": 10},
        "training": TrainingRecord(
            strategy="single_path",
            history=[{"epoch": e, "step": e, "loss": 1 / (e + 1), "valid_loss": 1.0} for e in range(3)],
        ),
        "ranking": RankingRecord(
            reference="sotl", architectures=[scored(-1.0), scored(-2.0), scored(-3.0)], quality={"params": quality}
        ),
        "search": SearchRecord(
            sampler="evolution",
            objectives=["sotl"],
            limits={"params": 1e5},
            evaluated=[scored(-2.0)],
            best=[scored(-2.0)],
        ),
        "comparison": [Contender(name="best architecture, retrained", mean=0.9731, std=0.002, runs=[run, run])],
        "artifact": {"architecture": CELL, "seed": 0, "accuracy": 0.9731, "parameters": 12345},
    }
    return Results(**{**content, **changes})


def test_report_shows_what_was_found() -> None:
    page = render(results())
    for words in ("0.9731", "12,345 parameters", "15,625", "0.10 to 0.80", "conv 3x3", "params at most 100,000"):
        assert words in page
    assert page.count("<svg") == 3


def test_report_needs_nothing_else_and_escapes() -> None:
    page = render(results())
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(src|href)=", page)
    assert "<script" not in page


def test_report_of_an_unfinished_run() -> None:
    page = render(results(ranking=None, search=None, comparison=None, artifact=None))
    assert "Training of the supernet" in page
    assert "Test accuracy" not in page


@pytest.mark.parametrize(("operation", "arrows"), [("none", 0), ("skip_connect", 6)])
def test_cells_are_drawn_without_none(operation: str, arrows: int) -> None:
    svg = draw(dict.fromkeys(CELL, operation), "nb201")
    ElementTree.fromstring(svg)
    assert svg.count("marker-end") == arrows


def test_chains_are_drawn_in_rows() -> None:
    svg = draw({f"layer{i}": "skip" if i == 3 else HOSTILE for i in range(8)}, "chain")
    ElementTree.fromstring(svg)
    assert svg.count("<rect") == 8
    assert svg.count("stroke-dasharray") == 1


@pytest.mark.parametrize("values", [[0.0], [1.0, 1.0], [-5e6, 3e6], [1e-6, 2e-6]])
def test_plots_keep_points_inside(values: list[float]) -> None:
    points = [Point(x, x, HOSTILE) for x in values]
    picture = ElementTree.fromstring(scatter(points, x_label="a < b", y_label="y"))
    circles = [node for node in picture.iter() if node.tag.endswith("circle")]
    assert len(circles) == len(values)
    for circle in circles:
        assert 64 <= float(circle.attrib["cx"]) <= 640
        assert 0 <= float(circle.attrib["cy"]) <= 300
    ElementTree.fromstring(curve([Series("s", [(x, x) for x in values], "#000")], x_label="x", y_label="y"))
