"""A search by gradients in the report."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from polyarch.reports.charts import charts
from polyarch.methods.differentiable.report import SHOWN, differentiable_part
from polyarch.reports.html import render
from polyarch.results import DifferentiableRecord, Results


@pytest.fixture
def examples() -> Any:
    """The module of example results."""
    return importlib.import_module("report_examples")


@pytest.fixture
def searches() -> Any:
    """The module of example records."""
    return importlib.import_module("differentiable_examples")


def said(record: DifferentiableRecord) -> str:
    part = differentiable_part(record)
    assert part is not None
    return " ".join(part.sentences).replace("\u00a0", " ")


def values_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of all layers."""
    return [row for values in spec["datasets"].values() for row in values]


def section_of(results: Results) -> str:
    page = " ".join(render(results).replace("\u00a0", " ").split())
    return page[page.index('id="differentiable"') : page.index('id="training"')]


def test_a_collapse_is_told_with_its_numbers(examples: Any, searches: Any) -> None:
    results = examples.cell_results(differentiable=searches.collapsed())
    section = section_of(results)
    for words in (
        "After epoch 29 q points at an architecture with 6 skips (100 % of its operations) and a cell 3 deep.",
        "q is not sure: its entropy is 65 % of what it could be. It has pointed there since epoch 25.",
        "its true accuracy: 54.30 %; the best that q ever pointed at has 94.30 % (epoch 0).",
        "The guard against collapse says: Epoch 19: expected at most 50% of the operations to be skips.",
        "q goes along the gradient of the held-out loss; parametrisation softmax",
        "|<wbr>skip_connect~0|<wbr>+|<wbr>",
        "<td>Epoch 22: expected the dominant eigenvalue to grow less than 1.3 times over 5 of its values.",
        '<td class="number">25</td><td class="key">skip_connect|<wbr>',
        '<td class="number">81.99 %</td><td class="number">54.30 %</td>',
    ):
        assert words in section
    assert "went back" not in section
    for name in ("shape", "entropy", "truth", "eigenvalue", "loss", "q", "path"):
        assert f'id="chart-search-{name}"' in section
    page = render(results)
    assert 'href="#differentiable"' in page
    assert 'id="chart-supernet"' not in page  # its caption speaks of sampled architectures
    assert "differentiable" not in render(examples.cell_results())


def test_only_what_was_measured_is_drawn(searches: Any, examples: Any) -> None:
    record = searches.deep()
    assert said(record) == (
        "After epoch 11 q points at an architecture with 2 skips (12 % of its operations), a normal cell 5 deep and a "
        "reduction cell 5 deep. q is undecided: its entropy is 98 % of what it could be. It has pointed there since "
        "epoch 0."
    )
    drawn = charts(examples.cell_results(differentiable=record))
    assert {name for name in drawn if name.startswith("search-")} == {
        "search-shape", "search-entropy", "search-loss", "search-q", "search-path",
    }  # fmt: skip
    assert len(values_of(drawn["search-path"])) == 28 * 12
    assert drawn["search-shape"]["layer"][0]["encoding"]["y"]["axis"]["tickMinStep"] == 1
    assert "tickMinStep" not in drawn["search-loss"]["layer"][0]["encoding"]["y"]["axis"]


def test_after_going_back_that_epoch_counts(searches: Any, examples: Any) -> None:
    record = searches.collapsed(back_to=17)
    assert "After epoch 17 q points at an architecture with 2 skips" in said(record)
    results = examples.cell_results(differentiable=record)
    section = section_of(results)
    assert "Dashed: epoch 17, to which the search went back." in section and "q of that epoch" in section
    drawn = charts(results)
    cells = values_of(drawn["search-q"])
    assert cells[1]["share"] == record.marginals[17]["0->1"][1] and cells[1]["option"] == "skip_connect"
    assert {"epoch": 17} in values_of(drawn["search-shape"])


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.05, "q is sure: its entropy is 5 %"), (0.3, "fairly sure"), (0.7, "not sure"), (0.95, "undecided")],
)
def test_words_of_sureness(searches: Any, share: float, words: str) -> None:
    record = searches.collapsed()
    record.history[-1]["entropy_share"] = share
    assert words in said(record)


def test_an_architecture_that_q_does_not_point_at(searches: Any) -> None:
    record = searches.collapsed()
    record.discretisation = "perturbation"
    assert "another one" not in said(record)
    record.architecture["0->1"] = "nor_conv_3x3"
    assert "The architecture that was chosen is another one, by perturbation." in said(record)


def test_what_was_not_measured_or_written(searches: Any) -> None:
    record = searches.collapsed(epochs=60)
    record.architectures = [f"a{epoch}" for epoch in range(60)]
    del record.history[50]["true_accuracy"]
    part = differentiable_part(record)
    assert part is not None and differentiable_part(None) is None
    assert (part.changed, len(part.changes), part.changes[0].epoch) == (60, SHOWN, 60 - SHOWN)
    assert part.changes[10].cells[-1] == "–"


def test_before_the_first_epoch(searches: Any, examples: Any) -> None:
    empty = searches.collapsed().model_copy(
        update={"history": [], "architectures": [], "marginals": [], "findings": [], "notation": None}
    )
    section = section_of(examples.cell_results(differentiable=empty))
    assert "No epoch has been finished yet." in section and "skip_connect|<wbr>" in section
    assert "chart-search" not in section


def test_one_choice_has_bars_and_long_searches_are_thinned(searches: Any, examples: Any) -> None:
    record = searches.collapsed(epochs=150)
    one = {"0->1": record.choices["0->1"]}
    record.choices, record.marginals = one, [{"0->1": q["0->1"]} for q in record.marginals]
    drawn = charts(examples.cell_results(differentiable=record))
    assert drawn["search-q"]["layer"][0]["mark"]["type"] == "bar"
    epochs = [cell["epoch"] for cell in values_of(drawn["search-path"])]
    assert len(epochs) == 60 and epochs[0] == 0 and epochs[-1] == 149


def test_names_cannot_become_html_and_the_record_survives_the_file(searches: Any, examples: Any) -> None:
    record = searches.collapsed()
    hostile = examples.HOSTILE
    record.findings, record.notation, record.method = [hostile], hostile, hostile
    results = examples.cell_results(differentiable=record)
    assert hostile not in render(results)
    assert Results.model_validate(json.loads(json.dumps(results.model_dump(mode="json")))) == results
