"""The JSON schema of the results file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from polyarch.results import results_schema

ROOT = Path(__file__).parents[2]
STORED = sorted((ROOT / "docs" / "results" / "searches").glob("*.json"))


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(results_schema())
    return Draft202012Validator(results_schema())


def test_the_docs_have_it() -> None:
    """`polyarch schema > docs/results.schema.json` writes it again."""
    assert json.loads((ROOT / "docs" / "results.schema.json").read_text()) == results_schema()


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_results_fit(path: Path, validator: Draft202012Validator) -> None:
    validator.validate(json.loads(path.read_text()))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("version",), "4"),
        (("task", "goal"), "larger"),
        (("predictors", 0, "score"), None),
        (("record", "ranking"), {"reference": 1}),
        (("comparison", 0, "runs", 0, "shoe size"), 44),
    ],
)
def test_others_do_not(place: tuple[Any, ...], value: Any, validator: Draft202012Validator) -> None:
    content = json.loads(STORED[0].read_text())
    *way, last = place
    inner = content
    for key in way:
        inner = inner[key]
    inner[last] = value
    assert not validator.is_valid(content)
