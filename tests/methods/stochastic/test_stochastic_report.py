"""One network with many architectures in the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from record_examples import moved
from rendered import charts_of, page_of, plain, read_again, without_intervals
from rendered import section_of as part_of
from report_examples import cell_results
from stochastic_examples import cells_results, stochastic_results

from polyarch.methods.stochastic.record import StochasticRecord
from polyarch.methods.stochastic.report import MOST_PICTURES, section
from polyarch.reports.headline import entries
from polyarch.reports.page import render
from polyarch.results import CalibrationRecord, Results

pytest.importorskip("altair", reason="needs the extra 'report'")


def record_of(results: Results) -> StochasticRecord:
    record = results.found(StochasticRecord)
    assert record is not None
    return record


def said_of(results: Results) -> list[str]:
    return [without_intervals(sentence) for sentence in section(results).sentences or ()]


def section_of(results: Results) -> str:
    return part_of(results, "stochastic", "architecture")


def values_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of all layers."""
    return [row for values in spec["datasets"].values() for row in values]


def test_calibration_errors_are_shown_with_their_noise() -> None:
    results = stochastic_results()
    noise = CalibrationRecord(error=0.0268, floor=0.0312, low=0.0011, high=0.0345)
    noisy = [one.model_copy(update={"calibration": noise, "calibration_before": noise}) for one in results.predictors]
    results = results.model_copy(update={"predictors": noisy})
    assert "its calibration error is 0.0268 (0.0011 to 0.0345, noise alone 0.0312) and its" in said_of(results)[-1]
    assert "0.0312; 0.0011–0.0345" in page_of(results) and "does not fit them" not in page_of(results)
    (shown,) = [tile for tile in section(results).tiles or () if tile.label == "calibration error"]
    assert shown.value == "0.0268" and "(0.0011 to 0.0345, noise alone 0.0312)" in plain(shown.note)
    unfit = [noisy[0].model_copy(update={"train_score": 0.54}), noisy[1].model_copy(update={"train_score": 0.97})]
    page = page_of(results.model_copy(update={"predictors": [*unfit, noisy[2]]}))
    assert page.count("does not fit them") == 1 and "54.0" in page


def test_the_headline_compares_with_one_member_and_with_one_network_alone() -> None:
    results = stochastic_results()
    said = said_of(results)
    assert said[0] == (
        "On digits, the ensemble of 5 wirings reaches 97.30 % test accuracy, 0.80 percentage points above its best "
        "member alone (96.50 %) and 0.50 percentage points above the residual network, trained alone (96.80 %). Each "
        "was trained once: small differences may be chance."
    )
    assert said[1] == (
        "It costs 4.98 times the multiply-accumulates of its best member alone (9,597,056 instead of 1,926,656 per "
        "example) and has 222,224 parameters."
    )
    assert said[2].startswith("Before temperature scaling, its calibration error is 0.0268 and its mean negative")
    assert said[2].endswith("for the residual network, trained alone, they are 0.0268 and 0.1497.")
    shown = {tile.label: plain(tile.value) for tile in section(results).tiles or ()}
    assert shown["vs. best member"] == "+0.80" and shown["vs. one network"] == "+0.50"
    assert shown["cost"] == "4.98"
    assert [entry.name for entry in entries(results, section(results).answer) if entry.is_answer] == [
        "ensemble of 5 wirings"
    ]


def test_worse_and_equal_are_called_so() -> None:
    results = stochastic_results()
    assert results.comparison is not None
    moved(results.comparison[0], 0.95)
    moved(results.comparison[1], 0.95 - 1e-8)  # as single precision has it
    results.comparison[-1].runs.append(results.comparison[-1].runs[0])
    said = said_of(results)[0]
    assert "the same as its best member alone" in said and "1.80 percentage points below the residual network" in said
    assert "trained once" not in said


def test_the_section_tells_what_was_done() -> None:
    section = section_of(stochastic_results())
    for words in (
        "One set of weights was trained under 5 wirings drawn before training, one per example; each wiring also has "
        "some weights of its own. Of 5 wirings, the 5 best by validation loss predict together; all have the same "
        "weight.",
        '<td class="number">0.200</td>',
        '<td class="number">0.1000</td><td class="number">97.00 %</td>',
        "5 wirings reach a validation accuracy of 96.60 % on average; with running averages, as in use, 95.40 % (rank "
        "correlation 1.00).",
        '<tr><td class="name">noise</td><td>disagreement of members (mutual information)</td>'
        '<td class="number">0.8765</td> <td class="number">43.21 %</td></tr>',
    ):
        assert words in section
    for name in ("members-score", "members-loss", "members-calibration", "norm-modes"):
        assert f'id="chart-{name}"' in section
    assert section.count("<svg") == 5 and "left out" not in section


def test_the_rest_of_the_page_speaks_of_the_ensemble() -> None:
    page = page_of(stochastic_results())
    assert "<h1>digits: one network, 5 wirings</h1>" in page and 'href="#stochastic"' in page
    assert "The best wiring alone</h2>" in page and "The network trained alone</h3>" in page
    assert "<li><code>ensemble</code>: ensemble of 5 wirings, the default</li>" in page
    assert "<li><code>artifact</code>: best wiring</li>" in page
    assert "polyarch predict ensemble INPUT" in page and "ensemble/model.onnx" in page
    assert "Members of ensemble" not in page  # they have a table of their own
    assert 'id="stochastic"' not in page_of(cell_results())


def test_cells_shares_and_examples_without_labels() -> None:
    results = cells_results()
    section = section_of(results)
    for words in (
        "trained under 20 architectures drawn before training, one per batch.",
        "1,234 unlabelled examples had to get the same answer under any two of them.",
        "Of 6 architectures, the 6 best by validation loss within 5,000,000 multiply-accumulates were weighted, and 5 "
        "of them predict together; their weights maximise the likelihood of the validation examples.",
        '<td class="number">left out</td>',
        "none|<wbr>",
    ):
        assert words in section
    assert "<svg" not in section and "corrupted" not in section and "Batch and running" not in section


def test_charts() -> None:
    drawn = charts_of(cells_results())
    accuracy = values_of(drawn["members-score"])
    assert [row["value"] for row in accuracy if "value" in row] == pytest.approx(
        [0.965 + 0.01 * (1 - 1 / members) for members in range(1, 7)]
    )
    assert {"members": 5} in accuracy and "norm-modes" not in drawn  # so many are exported
    both = values_of(charts_of(stochastic_results())["norm-modes"])
    assert {"batch": 0.97, "running": 0.96} in both
    assert "retraining" in drawn  # of the network that was trained alone


def test_one_member_has_no_curve_and_many_have_few_pictures() -> None:
    results = stochastic_results()
    record = record_of(results)
    record.curve = record.curve[:1]
    assert "members-score" not in charts_of(results) and "What more members bring" not in page_of(results)
    record.members = record.members * 4
    assert section_of(results).count("<svg") == MOST_PICTURES < len(record.members)
    record.members = record.members[:1]
    assert "Of 5 wirings, the best by validation loss predicts alone." in section_of(results)


def test_before_the_ensemble_is_chosen() -> None:
    early = stochastic_results(record=None, comparison=None, artifact=None, predictors=[])
    assert "has not reached the comparison yet" in page_of(early)


def test_names_cannot_become_html_and_the_record_survives_the_file(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    results = stochastic_results()
    record = record_of(results)
    for member in record.members:
        member.notation = hostile
    record.draws, record.weighting, record.corrupted = hostile, hostile, {hostile: {hostile: {"auroc": 1, "fpr95": 0}}}
    assert hostile not in render(results)
    assert read_again(results, tmp_path) == results
