"""A posterior-guided search in the report: what is said, drawn and left out."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from record_examples import moved
from rendered import charts_of, page_of, plain, read_again, snippets, without_intervals

from polyarch.methods.posterior_guided.channel_pictures import (
    MOST_CELLS,
    cells,
    channel_pictures,
    kept_text,
    probability,
)
from polyarch.methods.posterior_guided.record import GatedLayer, GuidedRecord
from polyarch.methods.posterior_guided.report import layer_table, sentences, tiles
from polyarch.reports.headline import entries
from polyarch.reports.page import render
from polyarch.reports.specs import MOST_POINTS
from polyarch.reports.text import count
from polyarch.results import Results

pytest.importorskip("altair", reason="needs the extra 'report'")

HOSTILE = "<b>x</b></script><script>alert(1)</script>"


@pytest.fixture
def examples() -> Any:
    """The module of example results."""
    return importlib.import_module("guided_examples")


def record_of(results: Results) -> GuidedRecord:
    record = results.found(GuidedRecord)
    assert record is not None
    return record


def said_of(results: Results) -> list[str]:
    return [without_intervals(sentence) for sentence in sentences(results, record_of(results)) or ()]


def values_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of all layers."""
    return [row for values in spec["datasets"].values() for row in values]


def layer(kept: str, **changes: Any) -> GatedLayer:
    return GatedLayer(**{"name": "a", "group": "a", "side": "input", "drop": 0.5, "kept": kept, **changes})


def names_in(picture: str) -> list[str]:
    """The whole names of the rows of a picture, from what shows under the pointer."""
    texts = [node for node in ElementTree.fromstring(picture).iter() if node.tag.endswith("}text")]
    return [str(node[0].text) for node in texts if node.attrib["text-anchor"] == "start"]


def test_the_first_lines_say_how_good_and_how_small_the_network_is(examples: Any) -> None:
    results = examples.guided_results()
    best = record_of(results).best_draw
    said = said_of(results)
    assert said[0] == (
        "On cifar10, the best draw, trained further, reaches 92.72 % test accuracy with "
        f"{best.parameters / 2500:.1f} % of the parameters ({best.parameters:,} of 250,000) and "
        f"{best.macs / 40_000:.1f} % of the multiply-accumulates of the whole network."
    )
    assert said[1] == (
        "That is 0.28 percentage points below the whole network, trained alone (93.00 %). With the weights of "
        "the search and no further training, the best of 60 draws reaches 92.10 %, 7.10 percentage points above the "
        "best of 24 random draws at one rate (85.00 %) and 2.10 percentage points above the whole network (90.00 %). "
        "The search ran once: small differences may be chance."
    )
    assert said[2] == (
        "After further training, the best draw is 0.62 percentage points above the same network as drawn."
    )
    assert said[3] == (
        "The mixture of 5 draws reaches 92.40 %, 0.32 percentage points below the best draw, trained further."
    )
    assert said[4].startswith(
        "Calibration errors before temperature scaling: 0.0268 for the best draw, trained further"
    )
    shown = {tile.label: plain(tile.value) for tile in tiles(results, record_of(results))}
    assert (shown["vs. whole network"], shown["vs. random draws"]) == ("-0.28", "+7.10")
    assert shown["parameters left"] == f"{best.parameters / 2500:.1f} %"
    assert shown["channels kept"] == "18.5 %"


def test_equal_and_single_runs_are_called_so(examples: Any) -> None:
    results = examples.guided_results()
    moved(results.comparison[0], results.comparison[3].mean + 1e-8)  # as single precision has it
    results.comparison[-1].runs = results.comparison[-1].runs[:1]
    said = said_of(results)[1]
    assert "the same as the best of 24 random draws" in said
    assert "5.00 percentage points below the whole network (90.00 %)" in said
    assert said.endswith("Each was trained once: small differences may be chance.")


def test_a_draw_that_further_training_made_worse_is_exported_as_it_was(examples: Any) -> None:
    results = examples.guided_results()
    examples.exported_as_drawn(results)
    said = said_of(results)
    assert said[0].startswith("On cifar10, the best draw reaches 92.10 % test accuracy")
    assert said[2].startswith("Trained further, it reaches 92.72 %; on validation data that was worse")
    assert [entry.name for entry in entries(results) if entry.is_answer] == ["best draw"]
    assert "<li><code>artifact</code>: best draw</li>" in page_of(results)


def test_the_pictures_have_every_layer_in_order(examples: Any) -> None:
    for results, pictures in ((examples.guided_results(), 2), (examples.large_results(), 3)):
        record = record_of(results)
        drawn = channel_pictures(record)
        assert len(drawn) == pictures
        assert [name for one in drawn for name in names_in(one)] == [layer.name for layer in record.layers]
    small = examples.record(examples.cell_layers()[:7])
    (picture,) = channel_pictures(small)
    assert picture.count("<circle") == 1  # the pooling, whose gate is on its output
    assert picture.count("stroke-dasharray") == 1  # the one that is dropped wholly
    for words in ("K 3 · p < 0.01 · 100 %", "K 32 · p 0.97 · dropped", "K 16 · p 0.20 · 75 %"):
        assert words in plain(picture).replace("&lt;", "<")


def test_channels_have_cells_of_their_own_until_there_are_too_many() -> None:
    assert cells("101") == [1.0, 0.0, 1.0]
    many = cells("1" * 250 + "0" * 250)
    assert len(many) == MOST_CELLS and many[0] == 1.0 and many[-1] == 0.0
    assert [cells("10" * 3, 2), cells("1")] == [[2 / 3, 1 / 3], [1.0]]
    outcomes = {"0" * 9: "dropped", "1" * 9: "100 %", "10": "50 %", "1" + "0" * 499: "< 1 %", "0" + "1" * 499: "> 99 %"}
    assert {kept: plain(kept_text(layer(kept), True)) for kept in outcomes} == outcomes
    assert kept_text(layer("11"), False) == "unused"
    assert [plain(probability(drop)) for drop in (1e-9, 0.01, 0.5, 0.9999)] == ["< 0.01", "0.01", "0.50", "> 0.99"]


def test_blocks_beyond_the_depth_of_the_best_draw_are_not_in_it(examples: Any) -> None:
    results = examples.guided_depth_results()
    page, record = page_of(results), record_of(results)
    assert "(45.8 %). 4 layers beyond depth 4 are not part of it." in page  # without what the posterior expects of all
    pictures = "".join(channel_pictures(record))
    assert pictures.count("unused</text>") == 4 and pictures.count("stroke-dasharray") == 4
    assert [line.cells[5].shown for line in layer_table(record).lines][-4:] == ["unused"] * 4


def test_the_paragraph_tells_how_it_was_done(examples: Any) -> None:
    page = page_of(examples.guided_results())
    for expected in (
        "one drop probability for each of 12 layers, 0.1 at the start",
        "at temperature 0.2.",
        "The length scale of the prior is d = 7.07 (d² = 49.98); limits on the size, not the prior,",
        "The search then drew 60 networks from the posterior",
        "it drew 24 at random, with one rate for all channels and the same expected share of kept ones, 19.43 %.",
        "The mixture averages the probabilities of 5 draws.",
    ):
        assert expected in page
    assert "Limits" not in page and "The depth has" not in page
    results = examples.guided_depth_results()
    page = page_of(results)
    assert "Limits: parameters at most 132,000; multiply-accumulates at most 2,100,000." in page
    assert "Draws were made smaller to respect the limits (strength 12.5)" in page
    assert "The depth has a learned posterior, too." in page
    limited = record_of(results)
    limited.strength, limited.constant_decay, limited.random = 0.0, 0.0005, []
    for one in limited.layers:
        one.group = "all"
    page = page_of(results)
    assert "Draws beyond them were rejected." in page and "at random" not in page
    assert "a constant weight decay of 0.0005" in page and "each of 1 group of 12 layers" in page
    assert layer_table(limited).headings[2] == "group"


def test_charts(examples: Any) -> None:
    results = examples.guided_depth_results()
    record, drawn = record_of(results), charts_of(results)
    rows = values_of(drawn["draws-macs"])
    assert {"macs": record.max_macs} in rows and {"parameters": record.max_params} in values_of(
        drawn["draws-parameters"]
    )
    assert [row["position"] for row in rows if row.get("kind") == "the best"] == [record.best]
    assert sum(row.get("kind") == "from the posterior" for row in rows) == 60
    bars = values_of(drawn["guided-depths"])
    assert [row["q"] for row in bars if "q" in row][:7] == pytest.approx(record.depths)
    assert next(row["value"] for row in values_of(drawn["kept"])) == pytest.approx(0.88)
    assert len(values_of(drawn["penalty"])) == 24
    assert "guided-depths" not in charts_of(examples.guided_results())


def test_many_draws_are_thinned_out_and_the_best_stays(examples: Any) -> None:
    results = examples.large_results()
    rows = values_of(charts_of(results)["draws-parameters"])
    kinds = [row["kind"] for row in rows]
    assert kinds.count("random, one rate") == MOST_POINTS
    assert any(row["kind"] == "from the posterior" and row["position"] == record_of(results).best for row in rows)
    assert "Of each kind, an even selection of at most 400 is shown." in page_of(results)
    assert "even selection" not in page_of(examples.guided_results())
    assert len(render(results)) < 1.8e6


def test_the_page_speaks_of_draws_and_lists_no_choices(examples: Any) -> None:
    results = examples.guided_results()
    page = page_of(results)
    for words in (
        "<h1>cifar10: which channels does a network need?</h1>",
        "It drops 1 of 12 layers entirely.",
        "gate on the output of a pooling or identity",
        "<li><code>posterior</code>: mixture of 5 draws, the default</li>",
        "<li><code>artifact</code>: best draw, trained further</li>",
        "polyarch predict RUN INPUT --mode marginal # mixture of 5 draws",
        "polyarch predict posterior INPUT",
        "How far you can trust the predictions",
        "Detection of OOD data",
        '<td class="key">cells.0.operations.6</td>',
    ):
        assert words in page
    for name in ("contenders", "draws-macs", "draws-parameters", "supernet", "kept", "penalty", "retraining", "risk"):
        assert f'id="chart-{name}"' in page
    assert [name for name in charts_of(results) if f'id="chart-{name}"' not in page] == []
    assert "Members of" not in page and 'id="architecture"' not in page and 'id="distribution"' not in page
    assert "kernel3.1[0]" not in page and "keep|" not in page and "drop, " not in page
    assert list(snippets(render(results)))[1] == "In a shell, with the folder of this report as RUN"


@pytest.mark.parametrize("missing", ["predictors", "further", "random", "alone", "comparison"])
def test_what_is_missing_is_not_spoken_of(examples: Any, missing: str) -> None:
    results = examples.guided_results()
    if missing in ("predictors", "comparison"):
        setattr(results, missing, [])
    else:
        results.comparison = [one for one in results.comparison if missing not in one.name]
        results.predictors = [one for one in results.predictors if missing not in one.name]
    said = " ".join(said_of(results))
    assert "test accuracy" in said
    assert (missing in ("random", "comparison")) != ("random draws at one rate" in said)
    assert (missing == "alone") != ("the whole network, trained alone (93.00" in said)
    assert "that was worse" not in said
    assert 'id="draws"' in page_of(results)


def test_a_record_without_any_test_result(examples: Any) -> None:
    page = page_of(examples.guided_results(comparison=None, predictors=[], artifact=None))
    assert "has not reached the comparison yet" in page and 'id="guided"' in page


def test_before_anything_is_drawn(examples: Any) -> None:
    results = examples.unfinished_guided_results()
    results.space["size"] = 2**20_000  # too large for Python to print
    results.training.q = {name: [0.5, 0.5] for name in results.space["choices"]}
    page = page_of(results)
    assert "which channels does a network need?" in page and "has not reached the comparison yet" in page
    assert 'id="chart-kept"' in page and 'id="chart-penalty"' in page and 'id="chart-options"' not in page
    assert "kernel3.1[0]" not in page
    later = examples.guided_results(record=None)  # nor with everything but the record
    assert "kernel3.1[0]" not in page_of(later) and "Members of" not in page_of(later)


def test_astronomic_numbers() -> None:
    assert plain(count(2**1000)) == "about 10^301" and count(10**20) == "100,000,000,000,000,000,000"


def test_names_cannot_become_html_and_the_record_survives_the_file(examples: Any, tmp_path: Path) -> None:
    results = examples.guided_results()
    for number, one in enumerate(record_of(results).layers):
        one.name, one.group = f"{HOSTILE} {number}", f"{HOSTILE}\x00"
    results.predictors[1].name = f"mixture of {HOSTILE}"
    page = render(results)
    assert "<b>x" not in page and "alert(1)</script>" not in page and "\x00" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    for picture in channel_pictures(record_of(results)):
        ElementTree.fromstring(picture)
    assert read_again(results, tmp_path) == results
