"""The report of a search for a depth answers first, compares honestly, and shows the numbers of the record."""

from __future__ import annotations

import re
from typing import Any

import pytest
from depth_examples import baseline_results, photos_results, spirals_results
from rendered import charts_of, page_of, rows, sections, snippets, text_of
from report_examples import HOSTILE, IMAGE

from polyarch.methods.depth.record import DepthRecord
from polyarch.methods.depth.report import relative_time, sentences, tiles
from polyarch.reports.page import render
from polyarch.reports.specs import evenly
from polyarch.results import Results

pytest.importorskip("altair", reason="needs the extra 'report'")

WRONG = ("random", "best architecture", "sampled", "supernet", "out of", "ensemble")
"""Words of other searches that say nothing true of this one."""


def record_of(results: Results) -> DepthRecord:
    record = results.found(DepthRecord)
    assert record is not None
    return record


def said(results: Results) -> str:
    return " ".join(sentences(results, record_of(results))).replace("\u00a0", " ")


def test_the_depth_is_the_first_answer() -> None:
    results = spirals_results()
    assert said(results).startswith(
        "On spirals, the posterior favours depth 9 of 20 (argmax rule; the 95 % rule gives 8, the expected rule gives "
        "10). The mixture of the depths up to 11 uses 11 of 20 blocks and reaches 98.61 % test accuracy, 0.17 "
        "percentage points below all depths weighted by the posterior (98.78 %); a forward pass takes 57 % of the "
        "time. On test data, its mean log p of the true class is -0.045, worse than the -0.043 of all depths weighted "
        "by the posterior."
    )
    found = {tile.label: tile.value for tile in tiles(results, record_of(results))}
    assert found["depth"] == "9 of 20"
    assert found["forward pass"] == "45\u00a0%"
    assert found["early exit"] == "6.9"


def test_other_rules_do_not_prefer() -> None:
    words = "the posterior leads to depth 18 of 50 (95 % rule; the argmax rule gives 20, the expected rule gives 21)"
    assert words in said(photos_results())


def test_the_mixture_comes_first_and_the_network_alone_after_it() -> None:
    results = spirals_results()
    assert (
        "Depth 9 alone reaches 97.56 % test accuracy, 1.22 percentage points below all depths weighted by the "
        "posterior, and a mean log p of -0.044, worse than the -0.043 of those."
    ) in said(results)
    text = text_of(render(results))
    assert "posterior : pruned mixture, the default artifact : pruned network alone" in text


def test_weights_of_the_mixture() -> None:
    results = spirals_results()
    record = record_of(results)
    assert "The depths of the mixture have learned weights, which predict validation data best." in said(results)
    text = text_of(render(results))
    assert "learned q as it was learned with the weights 11 -0.0500 -0.0447 98.61 %" in text
    assert "stacked fitted to validation data 20 -0.0800 -0.0510 98.00 %" in text
    record.weighting = "exact"
    assert "The depths of the mixture have exact weights, as asked for." in said(results)


def test_how_far_the_learned_posterior_was() -> None:
    results = spirals_results()
    assert (
        "When training stopped, the learned q was 1.06 nats (KL) away from the exact posterior for the final weights; "
        "from the learned one, the same rule would choose depth 11."
    ) in said(results)
    assert "KL(learned || exact) = 1.058 nats" in text_of(render(results))
    record_of(results).other_choices["argmax"] = 9
    assert "from the learned one, it leads to the same depth." in said(results)


def test_records_of_the_learned_posterior_alone() -> None:
    """As runs had them before the exact one was computed."""
    results = photos_results()
    text = text_of(render(results))
    assert "the posterior that was learned with the weights, in closed form" in text
    for words in ("KL(", "nats (KL)", "Weights of the mixture"):
        assert words not in text


def test_gains_and_losses_are_called_what_they_are() -> None:
    results = spirals_results(seconds={"forward_full": 0.002, "forward_pruned": 0.0021, "forward_mixture": 0.0022})
    mixture, pruned = record_of(results).predictors[:2]
    mixture.score, mixture.loss = pruned.score, pruned.loss
    assert "98.61 % test accuracy, the same as all depths weighted by the posterior; a forward pass is not faster" in (
        said(results)
    )
    assert "-0.045, the same as that of all depths" in said(results)
    mixture.score, mixture.loss = pruned.score - 0.01, 0.1
    assert "1.00 percentage points above all depths" in said(results)
    assert "-0.045, better than the -0.100 of all depths" in said(results)
    pruned.blocks = 20
    assert "The mixture of the depths up to 20 uses all 20 blocks and reaches" in said(results)
    assert "forward" not in said(results)


def test_nothing_is_said_of_what_was_not_measured() -> None:
    results = photos_results()
    record = record_of(results)
    record.predictors, record.exits, results.comparison, results.artifact = [], [], None, None
    text = text_of(render(results))
    for words in ("forward", "Early exit", "Ways to predict", "all depths weighted", "Use it", "nan", "None"):
        assert words not in text
    assert {tile.label for tile in tiles(results, record)} == {"depth", "likely depths", "test accuracy", "parameters"}


def test_the_deepest_depth_is_a_warning() -> None:
    for results in (spirals_results(), baseline_results()):
        assert "deepest depth on offer" not in said(results)
        record_of(results).chosen = record_of(results).depths[-1].depth
        assert "This is the deepest depth on offer: going deeper may help." in said(results)


def test_the_baseline_has_no_posterior() -> None:
    results = baseline_results()
    assert said(results).startswith(
        "On flowers, validation data favour depth 6 among 7 networks of depths up to 12, each trained alone. It reaches"
    )
    text = text_of(render(results))
    for words in ("posterior", "prior", "pruned", "all depths weighted", "--mode"):
        assert words not in text
    losses = [(one.depth, one.valid_loss) for one in record_of(results).depths]
    assert rows(charts_of(results)["depth-loss"], "depth", "value") == losses
    assert min(losses, key=lambda pair: pair[1])[0] == record_of(results).chosen


@pytest.mark.parametrize("make", [spirals_results, photos_results, baseline_results])
def test_every_section_fits_a_search_for_a_depth(make: Any) -> None:
    results = make()
    page = page_of(results)
    text = text_of(page)
    assert not [words for words in WRONG if words in text]
    found = ["headline", "depth", "decisions", "architecture", "training", "trust", "use", "settings"]
    assert sections(page) == found
    assert re.findall(r'<a href="#([\w-]+)">', page) == found
    assert set(re.findall(r'class="plot" id="chart-([\w-]+)"', page)) == set(charts_of(results))


def test_charts_show_the_record() -> None:
    results = spirals_results()
    depths = record_of(results).depths
    posterior = [(one.depth, one.q, one.prior, one.learned) for one in depths]
    assert set(rows(charts_of(results)["depth-posterior"], "depth", "q", "prior", "other")) == set(posterior)
    for name, values in (
        ("depth-score", [("validation", "valid_score", 1), ("test", "score", 1)]),
        ("depth-likelihood", [("validation", "valid_loss", -1), ("test", "loss", -1)]),
    ):
        found = rows(charts_of(results)[name], "depth", "series", "value")
        for series, field, sign in values:
            expected = [(one.depth, series, sign * getattr(one, field)) for one in depths]
            assert [row for row in found if row[1] == series] == expected
        assert (9,) in rows(charts_of(results)[name], "depth")
    exits = [(one.confidence, one.mean_depth, one.accuracy) for one in record_of(results).exits]
    shown = rows(charts_of(results)["depth-exits"], "confidence", "mean_depth", "accuracy")
    assert sorted(set(shown)) == exits
    assert shown.count(exits[4]) == shown.count(exits[0]) + 1  # the chosen one is drawn once more


def test_mean_log_p_and_mean_p_are_told_apart() -> None:
    """The calibration error has its interval and its noise floor."""
    results, error = spirals_results(), "0.0123 (0.0000 to 0.0212, noise alone 0.0101)"
    text = text_of(render(results))
    assert "accuracy mean log p mean p calibration error forward time" in text
    assert f"mixture of all depths 20 9,302 98.78 % -0.0433 0.9631 {error} 100 %" in text
    assert f"pruned mixture 11 5,162 98.61 % -0.0447 0.9622 {error} 57 %" in text
    del results.seconds["forward_full"]
    assert f"mixture of all depths 20 9,302 98.78 % -0.0433 0.9631 {error} pruned" in text_of(render(results))


def test_forward_time_belongs_to_the_number_of_blocks() -> None:
    results = spirals_results()
    record = record_of(results)
    assert [relative_time(results, record, one.blocks) for one in record.predictors] == pytest.approx(
        [1.0, 1.2 / 2.1, 0.95 / 2.1, 1.0]
    )
    assert relative_time(results, record, 3) is None


def test_likely_depths_are_the_shortest_range() -> None:
    record = record_of(spirals_results())
    for one, q in zip(record.depths, [0.3, 0.02, 0.3, 0.3, 0.05, 0.03] + [0.0] * 15, strict=True):
        one.q = q
    assert record.likely() == (0, 3)
    assert record.likely(0.6) == (2, 3)
    assert record.likely(0.3) == (0, 0)


def test_ways_to_predict_can_be_copied() -> None:
    results = spirals_results()
    code = "\n".join(snippets(render(results)).values())
    for mode in ("single", "marginal", "early-exit"):
        assert f"polyarch predict RUN INPUT --mode {mode}" in code
    assert "polyarch predict posterior INPUT" in code
    results.space["kind"] = "module"  # exported as a program, which cannot stop early
    assert "early-exit" not in render(results)
    results = spirals_results()
    record_of(results).exits = []
    assert "early-exit" not in render(results)


def test_before_a_depth_is_chosen() -> None:
    results = spirals_results(record=None, comparison=None, artifact=None, predictors=[])
    page = page_of(results)
    assert "has not reached the comparison yet" in page and 'id="chart-options"' in page  # q after training


@pytest.mark.parametrize(("count", "most"), [(0, 5), (1, 5), (5, 5), (6, 5), (5000, 400)])
def test_even_selections_keep_both_ends(count: int, most: int) -> None:
    kept = evenly(count, most)
    assert len(kept) == len(set(kept)) == min(count, most)
    assert kept == sorted(kept)
    if count:
        assert (kept[0], kept[-1]) == (0, count - 1)


def test_hostile_text_stays_text() -> None:
    results = spirals_results()
    record = record_of(results)
    assert record.functions is not None
    record.functions.names = (HOSTILE, IMAGE)
    record.prior, record.updates, record.rule = IMAGE, HOSTILE, IMAGE
    record.choices = {IMAGE: 9, HOSTILE: 8}
    record.predictors[0].name = HOSTILE
    results.data["classes"] = [HOSTILE, IMAGE]
    page = re.sub(r"<script.*?</script>", "<!-- one of ours -->", render(results), flags=re.DOTALL)
    assert page.count("<!-- one of ours -->") == 3
    assert not re.search("<script|<img", page)
    for words in ("&lt;img src=x onerror=alert(2)&gt;", "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;"):
        assert page.count(words) > 4
