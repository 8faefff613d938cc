"""One network with many architectures in the report."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from polyarch.reports.charts import charts
from polyarch.reports.html import render
from polyarch.methods.stochastic.report import MOST_PICTURES, sentences, stochastic_part, tiles
from polyarch.results import Results, StochasticRecord


@pytest.fixture
def examples() -> Any:
    """The module of example results."""
    return importlib.import_module("stochastic_examples")


def record_of(results: Results) -> StochasticRecord:
    assert results.stochastic is not None
    return results.stochastic


def page_of(results: Results) -> str:
    return " ".join(render(results).replace("\u00a0", " ").split())


def section_of(results: Results) -> str:
    page = page_of(results)
    return page[page.index('id="stochastic"') : page.index('id="architecture"')]


def values_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of all layers."""
    return [row for values in spec["datasets"].values() for row in values]


def test_the_headline_compares_with_one_member_and_with_one_network_alone(examples: Any) -> None:
    results = examples.stochastic_results()
    said = [sentence.replace("\u00a0", " ") for sentence in sentences(results, record_of(results))]
    assert said[0] == (
        "On digits the ensemble of 5 wirings reaches 97.30 % test accuracy, 0.80 points above its best member alone "
        "(96.50 %) and 0.50 points above the residual network, trained alone (96.80 %). Each was trained once: small "
        "differences may be chance."
    )
    assert said[1] == (
        "It costs 4.98 times the multiply-accumulates of its best member alone (9,597,056 against 1,926,656 per "
        "example) and has 222,224 parameters."
    )
    assert said[2].startswith("Before any temperature its calibration error is 0.0268 and its mean negative")
    shown = {tile.words: tile.value.replace("\u00a0", " ") for tile in tiles(results, record_of(results))}
    assert shown["points over one member"] == "+0.80" and shown["points over alone"] == "+0.50"
    assert shown["cost"] == "4.98 times"


def test_worse_and_equal_are_called_so(examples: Any) -> None:
    results = examples.stochastic_results()
    results.comparison[0].mean = 0.95
    results.comparison[1].mean = 0.95 - 1e-8  # as single precision has it
    results.comparison[-1].runs.append(results.comparison[-1].runs[0])
    results.comparison[-1].std = 0.01
    said = sentences(results, record_of(results))[0].replace("\u00a0", " ")
    assert "the same as its best member alone" in said and "1.80 points below the residual network" in said
    assert "± 1.00" in said and "trained once" not in said


def test_the_section_tells_what_was_done(examples: Any) -> None:
    section = section_of(examples.stochastic_results())
    for words in (
        "One set of weights was trained under 5 wirings drawn before training, one for every example, where each "
        "wiring has some weights of its own. Of 5 wirings the 5 best by validation loss predict together; all count "
        "the same.",
        '<td class="number">0.200</td>',
        '<td class="number">0.1000</td><td class="number">97.00 %</td>',
        "5 wirings reach 96.60 % validation accuracy on average, with running averages, as in use, 95.40 % (rank "
        "correlation 1.00).",
        '<tr><td class="name">noise</td><td>disagreement of members (mutual information)</td>'
        '<td class="number">0.8765</td> <td class="number">43.21 %</td></tr>',
    ):
        assert words in section
    for name in ("members-accuracy", "members-loss", "members-calibration", "norm-modes"):
        assert f'id="chart-{name}"' in section
    assert section.count("<svg") == 5 and "left out" not in section


def test_the_rest_of_the_page_speaks_of_the_ensemble(examples: Any) -> None:
    page = page_of(examples.stochastic_results())
    assert "<h1>digits: one network, 5 wirings</h1>" in page and 'href="#stochastic"' in page
    assert "The best wiring alone</h2>" in page and "The network trained alone</h3>" in page
    assert "The ensemble is in the folder <code>ensemble</code> beside this report" in page
    assert "polyarch predict ensemble INPUT" in page and "ensemble/model.onnx" in page
    assert "Members of ensemble" not in page  # they have a table of their own
    assert 'id="stochastic"' not in page_of(importlib.import_module("report_examples").cell_results())


def test_cells_shares_and_examples_without_labels(examples: Any) -> None:
    results = examples.cells_results()
    section = section_of(results)
    for words in (
        "trained under 20 architectures drawn before training, one for every batch.",
        "1,234 examples without labels had to get the same answer under any two of them.",
        "Of 6 architectures the 6 best by validation loss within 5,000,000 multiply-accumulates were weighed, and 5 of "
        "them predict together; their shares are those with the highest likelihood of the validation examples.",
        '<td class="number">left out</td>',
        "none|<wbr>",
    ):
        assert words in section
    assert "<svg" not in section and "Corrupted copies" not in section and "Batch and running" not in section


def test_charts(examples: Any) -> None:
    drawn = charts(examples.cells_results())
    accuracy = values_of(drawn["members-accuracy"])
    assert [row["value"] for row in accuracy if "value" in row] == pytest.approx(
        [0.965 + 0.01 * (1 - 1 / members) for members in range(1, 7)]
    )
    assert {"members": 5} in accuracy and "norm-modes" not in drawn  # so many are exported
    both = values_of(charts(examples.stochastic_results())["norm-modes"])
    assert {"batch": 0.97, "running": 0.96} in both
    assert "retraining" in drawn  # of the network that was trained alone


def test_one_member_has_no_curve_and_many_have_few_pictures(examples: Any) -> None:
    results = examples.stochastic_results()
    record = record_of(results)
    record.curve = record.curve[:1]
    assert "members-accuracy" not in charts(results) and "What more members bring" not in page_of(results)
    record.members = record.members * 4
    part = stochastic_part(results, record)
    assert sum(line.picture is not None for line in part.lines) == MOST_PICTURES < len(part.lines)


def test_before_the_ensemble_is_chosen(examples: Any) -> None:
    early = examples.stochastic_results(stochastic=None, comparison=None, artifact=None, predictors=[])
    assert "has not reached the comparison yet" in page_of(early)


def test_names_cannot_become_html_and_the_record_survives_the_file(examples: Any) -> None:
    hostile = "</script><script>alert(1)</script>"
    results = examples.stochastic_results()
    record = record_of(results)
    for member in record.members:
        member.notation = hostile
    record.draws, record.weighting, record.corrupted = hostile, hostile, {hostile: {hostile: {"auroc": 1, "fpr95": 0}}}
    assert hostile not in render(results)
    assert Results.model_validate(json.loads(json.dumps(results.model_dump(mode="json")))) == results
