"""The card beside an artifact."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from rendered import plain

from polyarch.reports import write_model_cards
from polyarch.results import Results


@pytest.fixture
def examples() -> Any:
    """The module of example results."""
    return importlib.import_module("report_examples")


def card(results: Results, folder: Path) -> str:
    """The card of the default predictor, with ordinary spaces."""
    write_model_cards(results, folder)
    assert results.default is not None
    return (folder / results.default / "README.md").read_text().replace("\u00a0", " ")


def table(text: str, heading: str) -> dict[str, list[str]]:
    """First cell of a row -> the others, of the table below a heading."""
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {first: others for first, *others in rows}


def test_every_artifact_has_one(examples: Any, tmp_path: Path) -> None:
    results = examples.cell_results()
    write_model_cards(results, tmp_path)
    folders = {one.folder for one in results.predictors if one.folder is not None}
    assert {path.parent.name for path in tmp_path.rglob("README.md")} == folders and len(folders) > 1


def test_says_how_good_it_is_with_intervals(examples: Any, tmp_path: Path) -> None:
    results = examples.cell_results()
    answer = next(one for one in results.predictors if one.folder == results.default)
    rows = table(card(results, tmp_path), "How good it is")
    value, note = rows["accuracy"]
    assert value == f"{100 * answer.score:.2f} %" and re.fullmatch(r"95 % interval [\d.]+ to [\d.]+", note)
    low, high = map(float, re.findall(r"[\d.]+", note)[1:])
    assert low < 100 * answer.score < high
    assert rows["negative log-likelihood"][0] == f"{answer.loss:.4f}"
    data = table(card(results, tmp_path), "Data")
    assert data["test"][0] == f"{results.data['test']:,}"


def test_numbers_have_intervals_in_place_of_sets(examples: Any, tmp_path: Path) -> None:
    text = card(examples.numbers_results(), tmp_path)
    rows = table(text, "How good it is")
    assert "coverage of intervals" in rows and "coverage of prediction sets" not in rows
    assert "no other classes" not in text and "pipeline_tag: tabular-regression" in text


def test_the_licence_is_that_of_the_settings(examples: Any, tmp_path: Path) -> None:
    assert 'license: "unknown"' in card(examples.table_results(), tmp_path)
    results = examples.table_results()
    results.settings["licence"] = "cc-by-4.0"
    text = card(results, tmp_path)
    assert 'license: "cc-by-4.0"' in text and "## Licence\n\ncc-by-4.0\n" in text


def test_programs_are_named_where_they_are(examples: Any, tmp_path: Path) -> None:
    results = examples.table_results()
    assert "onnxruntime" not in card(results, tmp_path)
    (tmp_path / results.default / "model.onnx").touch()
    assert f'InferenceSession("{results.default}/model.onnx"' in card(results, tmp_path)


def test_names_of_others_stay_text(examples: Any, tmp_path: Path) -> None:
    text = card(examples.hostile_results(), tmp_path)
    assert "<script" not in text and plain(text).startswith("--- library_name: polyarch")


def test_whoever_does_not_fit_is_told_of(examples: Any, tmp_path: Path) -> None:
    results = examples.cell_results()
    for one in results.predictors:
        one.train_score = 0.5
    assert "Its accuracy on training examples is 50.00 %: it does not fit them" in card(results, tmp_path)
