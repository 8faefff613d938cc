"""A search by gradients in the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from differentiable_examples import collapsed, deep, differentiable_results
from rendered import charts_of, page_of, read_again
from rendered import section_of as part_of
from report_examples import HOSTILE, cell_results

from polyarch.methods.differentiable.record import DifferentiableRecord
from polyarch.methods.differentiable.report import MOST_CHANGES, changes_of, section, sentences
from polyarch.reports.page import render
from polyarch.results import Results

pytest.importorskip("altair", reason="needs the extra 'report'")


def said(record: DifferentiableRecord) -> str:
    return " ".join(sentences(record)).replace("\u00a0", " ")


def values_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of all layers."""
    return [row for values in spec["datasets"].values() for row in values]


def section_of(results: Results) -> str:
    return part_of(results, "differentiable", "training")


def test_a_collapse_is_told_with_its_numbers() -> None:
    record = collapsed()
    results = differentiable_results(record)
    section = section_of(results)
    for words in (
        "After epoch 29, q selects an architecture with 6 skips (100 % of its operations) and a cell of depth 3.",
        "q is uncertain: its entropy is 65 % of the largest possible.",
        "It has selected this architecture since epoch 25.",
        "Its true accuracy, read from a table, is 54.30 %; the best that q ever selected has 94.30 % (epoch 0).",
        "The guard against collapse reports: Epoch 19: expected at most 50% of the operations to be skips.",
        "q follows the gradient of the held-out loss; parametrisation softmax",
        "|<wbr>skip_connect~0|<wbr>+|<wbr>",
        f"<td>{record.findings[1]}</td>",
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
    assert "differentiable" not in render(cell_results())


def test_only_what_was_measured_is_drawn() -> None:
    record = deep()
    assert said(record) == (
        "After epoch 11, q selects an architecture with 2 skips (12 % of its operations), a normal cell of depth 5 and "
        "a reduction cell of depth 5. q is undecided: its entropy is 98 % of the largest possible. It has selected "
        "this architecture since epoch 0."
    )
    drawn = charts_of(differentiable_results(record))
    assert {name for name in drawn if name.startswith("search-")} == {
        "search-shape", "search-entropy", "search-loss", "search-q", "search-path",
    }  # fmt: skip
    assert len(values_of(drawn["search-path"])) == 28 * 12
    assert drawn["search-shape"]["layer"][0]["encoding"]["y"]["axis"]["tickMinStep"] == 1
    assert "tickMinStep" not in drawn["search-loss"]["layer"][0]["encoding"]["y"]["axis"]


def test_after_going_back_that_epoch_counts() -> None:
    record = collapsed(back_to=17)
    assert "After epoch 17, q selects an architecture with 2 skips" in said(record)
    results = differentiable_results(record)
    section = section_of(results)
    assert "Dashed: epoch 17, to which the search went back." in section and "q of that epoch" in section
    drawn = charts_of(results)
    cells = values_of(drawn["search-q"])
    assert cells[1]["share"] == record.marginals[17]["0->1"][1] and cells[1]["option"] == "skip_connect"
    assert {"epoch": 17} in values_of(drawn["search-shape"])


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.05, "q is certain: its entropy is 5 %"), (0.3, "fairly certain"), (0.7, "uncertain"), (0.95, "undecided")],
)
def test_words_of_certainty(share: float, words: str) -> None:
    record = collapsed()
    record.history[-1]["entropy_share"] = share
    assert words in said(record)


def test_an_architecture_that_q_does_not_select() -> None:
    record = collapsed()
    record.discretisation = "perturbation"
    assert "another one" not in said(record)
    record.architecture["0->1"] = "nor_conv_3x3"
    assert "The architecture that was chosen in the end is another one, by perturbation." in said(record)


def test_what_was_not_measured_or_written() -> None:
    record = collapsed(epochs=60)
    record.architectures = [f"a{epoch}" for epoch in range(60)]
    del record.history[50]["true_accuracy"]
    changes = list(changes_of(record))
    assert len(changes) == 60 and changes[50][2][-1] == "–"
    shown = section(differentiable_results(record)).values["changes"]
    assert (len(shown), shown[0][0]) == (MOST_CHANGES, 60 - MOST_CHANGES)
    assert "The last 20 of 60 changes." in page_of(differentiable_results(record))
    assert section(differentiable_results().model_copy(update={"record": None})).template is None


def test_before_the_first_epoch() -> None:
    empty = collapsed().model_copy(
        update={"history": [], "architectures": [], "marginals": [], "findings": [], "notation": None}
    )
    section = section_of(differentiable_results(empty))
    assert "No epoch has finished yet." in section and "skip_connect|<wbr>" in section
    assert "chart-search" not in section


def test_one_choice_has_bars_and_long_searches_are_thinned() -> None:
    record = collapsed(epochs=150)
    one = {"0->1": record.choices["0->1"]}
    record.choices, record.marginals = one, [{"0->1": q["0->1"]} for q in record.marginals]
    drawn = charts_of(differentiable_results(record))
    assert drawn["search-q"]["layer"][0]["mark"]["type"] == "bar"
    epochs = [cell["epoch"] for cell in values_of(drawn["search-path"])]
    assert len(epochs) == 60 and epochs[0] == 0 and epochs[-1] == 149


def test_names_cannot_become_html_and_the_record_survives_the_file(tmp_path: Path) -> None:
    record = collapsed()
    record.findings, record.notation = [HOSTILE], HOSTILE
    results = differentiable_results(record)
    assert HOSTILE not in render(results)
    assert read_again(results, tmp_path) == results


def test_before_anything_is_trained_alone() -> None:
    page = page_of(differentiable_results(comparison=None, artifact=None, predictors=[]))
    assert "The losses of the search are shown above" in page and "No epoch has finished yet" not in page
