"""The report is complete, honest, self-contained and safe, whatever a run has found."""

from __future__ import annotations

import importlib
import json
import re
import sys
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from record_examples import moved
from rendered import charts_of, page_of, plain, snippets, without_intervals

from polyarch.errors import MissingExtra
from polyarch.predictive.metrics import METRICS
from polyarch.reports import write_report
from polyarch.reports.headline import entries, sentences
from polyarch.reports.page import exports, prediction_text, render
from polyarch.reports.score_text import ScoreText
from polyarch.reports.scripts import embedded_json, library
from polyarch.reports.section import Section, Tile
from polyarch.reports.text import breakable, count, figures, limits_text, listed, percent, several, the
from polyarch.results import Estimate, Role


@pytest.fixture
def examples() -> Any:
    """The module of example results."""
    return importlib.import_module("report_examples")


class Page(HTMLParser):
    """What a browser would make of a page: its elements, its scripts, and its text outside of them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            self.scripts[-1] += data
        elif self._open != "style":
            self.text += data


def test_report_shows_what_was_found(examples: Any, tmp_path: Path) -> None:
    results = examples.cell_results()
    write_report(results, tmp_path / "report.html")
    content = (tmp_path / "report.html").read_text()
    text = " ".join(Page(content).text.split())
    best = f"{results.artifact['parameters']:,} parameters"
    for words in ("98.20 % [97.", best, "15,625", "0.32 to 0.82", "conv 3x3", "parameters at most 24,000", "0.612"):
        assert words in text
    for decision in results.decisions:
        assert decision in text
    for heading in (
        "Result",
        "What was chosen for you",
        "Training",
        "Agreement of estimators",
        "Use it",
        "Detection of OOD data",
    ):
        assert heading in text
    ensemble = "The ensemble of 5 reaches 99.20 %, 1.10 percentage points above the best network alone."
    assert ensemble in without_intervals(text)
    assert "0.9312" in text
    assert "(N, 1, 8, 8)" in text
    assert "torch.zeros(1, 1, 8, 8, dtype=torch.uint8)" in text
    assert len(content) < 1.5e6


def test_sections_come_in_order(examples: Any) -> None:
    page = Page(render(examples.cell_results()))
    found = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert found == [
        *("headline", "decisions", "architecture", "training", "distribution", "sizes"),
        *("ranking", "ranking-trust", "top", "trust", "use", "settings"),
    ]
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links == [f"#{place}" for place in found]
    places = {str(attributes["id"]) for tag, attributes in page.tags if attributes.get("class") == "plot"}
    assert places == {f"chart-{name}" for name in json.loads(page.scripts[0])}


def test_reports_need_nothing_else(examples: Any) -> None:
    for make in examples.RUNS.values():
        page = Page(render(make()))
        for tag, attributes in page.tags:
            assert tag not in ("link", "img", "iframe", "base", "object")
            assert "src" not in attributes
            inside = "data:image/png;base64," if tag == "image" else "#"
            assert (attributes.get("href") or inside).startswith(inside)
        assert len(page.scripts) == 3


def test_hostile_text_stays_text(examples: Any) -> None:
    content = render(examples.hostile_results())
    page = Page(content)
    assert len(page.scripts) == 3
    assert all(not name.startswith("on") for _, attributes in page.tags for name in attributes)
    for text in (examples.HOSTILE, examples.IMAGE):
        assert text in page.text
        assert text in json.dumps(json.loads(page.scripts[0]))
    assert "\x00" not in content
    assert "\u2028" not in page.scripts[0]
    content.encode()


def test_embedded_json_has_no_character_of_html() -> None:
    value = {"</script>": ["<!--", "a & b", "\u2028\u2029", "\ud800", 1.5, None, float("nan"), float("inf")]}
    text = embedded_json(value)
    assert not set("<>&\u2028\u2029\ud800") & set(text)
    assert json.loads(text) == {"</script>": [*value["</script>"][:6], None, None]}


def test_only_the_scripts_of_the_report_may_run(examples: Any) -> None:
    page = Page(render(examples.hostile_results()))
    policy = next(str(a["content"]) for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    hashes = [f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in page.scripts[1:]]
    assert rules["script-src"].split() == hashes


def test_report_of_an_unfinished_run(examples: Any) -> None:
    page = Page(render(examples.unfinished_results()))
    assert "there are no test results" in page.text
    assert list(json.loads(page.scripts[0])) == ["supernet"]


def test_a_method_that_is_not_installed_has_the_page_of_any_run(examples: Any) -> None:
    results = examples.cell_results(method="my-method", record=None)
    results.space["size"] = 2**20_000  # too large for Python to print
    page = page_of(results)
    assert "one architecture out of about 10^6,021" in page and "98.20 % [97." in page
    assert 'id="chart-contenders"' in page and 'id="architecture"' in page and "Members of ensemble of 5" in page
    assert 'id="ranking"' not in page


def test_a_method_fills_blocks_and_places_its_charts(examples: Any, tmp_path: Path) -> None:
    (tmp_path / "more.html").write_text("<p>{{ words }}</p>")
    (tmp_path / "mine.html").write_text(
        '{% extends "page.html" %}{% block answer %}<section id="mine" data-link="Mine">{% include "more.html" %}'
        '{{ plot("placed") }}</section>{% endblock %}'
    )
    results = examples.cell_results(record=None)
    spec = charts_of(results)["supernet"]
    section = Section(
        tmp_path / "mine.html",
        sentences=["One.", "Two.", "<b>Three</b>."],
        tiles=[Tile("label", "7", "note")],
        answer=Role.RANDOM,
        spells_out=False,
        modes={"my-mode": "what it does"},
        charts={"placed": spec, "left out": spec},
        values={"words": "a & b"},
    )
    page = Page(render(results, section))
    assert "a & b" in page.text and "<b>Three</b>" in page.text and "Mine" in page.text
    assert [tag for tag in page.tags if tag[1].get("id") == "chart-placed"]
    drawn = json.loads(page.scripts[0])
    assert "placed" in drawn and "left out" not in drawn
    assert "Members of" not in page.text and not [tag for tag in page.tags if tag[1].get("id") == "architecture"]
    assert "--mode my-mode  # what it does" in page.text
    assert [one.name for one in entries(results, Role.RANDOM) if one.is_answer] == ["random architectures, retrained"]


def test_only_programs_that_were_exported_are_explained(examples: Any) -> None:
    results = examples.cell_results()
    assert list(snippets(render(results)))[3:] == ["In Python, with torch alone", "With ONNX Runtime"]
    results.settings["programs"] = []
    assert "model.pt2" not in render(results)
    found = snippets(render(examples.table_results()))
    for heading, code in list(found.items())[2:]:
        compile(code, heading, "exec")
        assert "(1, 11" in code and "ensemble" in code


def test_the_default_predictor_is_the_one_in_the_snippets(examples: Any) -> None:
    results = examples.cell_results()
    assert exports(results) == {"ensemble": "ensemble of 5", "artifact": "best architecture"}
    assert "polyarch predict ensemble INPUT" in page_of(results)
    assert "<li><code>ensemble</code>: ensemble of 5, the default</li>" in page_of(results)
    results.default, results.predictors = "artifact", results.predictors[:1]
    found = snippets(render(results))
    assert "--mode" not in "".join(found.values()) and found["In a shell"].startswith("polyarch predict artifact INPUT")
    results.default, results.predictors = None, []
    assert exports(results) == {"artifact": "best network"}


def test_many_classes_are_cut_short(examples: Any) -> None:
    results = examples.cell_results()
    start, end = "a probability for each of ", "; and the entropy in nats"
    assert prediction_text(results) == f"{start}10 classes: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9{end}"
    assert prediction_text(results, most=2) == f"{start}10 classes: 0, 1, … (8 more){end}"
    results.task.names = ["only"]
    assert prediction_text(results) == f"{start}1 class: only{end}"


def test_what_other_tasks_predict(examples: Any) -> None:
    numbers, labels = examples.numbers_results(), examples.labels_results()
    assert prediction_text(numbers) == "mean, standard deviation and interval of 2 numbers: price, weight of it"
    assert prediction_text(labels) == "a probability for each of 3 labels: hot, wet, loud; and the entropy in nats"
    numbers.task.kind = "own"
    assert prediction_text(numbers) == "the outputs of the network, and how far its members disagree"


def test_a_report_of_numbers(examples: Any) -> None:
    """Lower errors are better; intervals take the place of sets, predicted against true that of reliability."""
    results = examples.numbers_results()
    said = plain(" ".join(sentences(results)))
    assert re.search(r"reaches 0\.07000 \[0\.0\d+, 0\.0\d+\] test RMSE", said)
    assert re.search(r"0\.006000 \[-0\.0\d+, 0\.0\d+\] below the mean of 10 random architectures", said)
    assert "which may be chance" in said
    content = render(results)
    assert "test RMSE, lower is better" in content
    text = plain(" ".join(Page(content).text.split()))
    for words in ("Prediction intervals", "89.67 %", "mean width", "price", "weight of it", "RMSE", "R²"):
        assert words in text
    for words in ("accuracy", "Prediction sets", "classes per set", "Brier"):
        assert words not in text
    charts = set(json.loads(Page(content).scripts[0]))
    assert {"predicted-0", "predicted-1", "residuals-0", "residuals-1", "levels", "risk", "retraining-score"} <= charts
    assert "reliability" not in charts
    code = snippets(content)["With ONNX Runtime"]
    assert "mean, std, noise_std, disagreement_std, low, high = session.run" in code


def test_a_better_error_is_a_gain(examples: Any) -> None:
    results = examples.numbers_results()
    for side, mean in zip(results.comparison, (0.05, 0.2), strict=False):
        moved(side, mean)
    said = plain(" ".join(sentences(results)))
    assert re.search(r"0\.1500 \[0\.1\d+, 0\.1\d+\] below the mean of 10 random architectures", said)
    assert ": more than chance." in said and "did not find" not in said
    for side, mean in zip(results.comparison, (0.2, 0.05), strict=False):
        moved(side, mean)
    assert "did not find an architecture that is better" in " ".join(sentences(results))


def test_report_before_the_first_epoch(examples: Any) -> None:
    results = examples.unfinished_results()
    results.training.history = []
    assert "No epoch has finished yet" in Page(render(results)).text


def test_report_of_a_run_without_predictors(examples: Any) -> None:
    results = examples.cell_results(predictors=[], decisions=[])
    for contender in results.comparison:
        for run in contender.runs:
            run.history = []
    page = Page(render(results))
    assert list(json.loads(page.scripts[0])) == ["contenders", "supernet", "sizes", "options", "options-all"]


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (0.02, r"That is 2\.00 percentage points \[1\.\d\d, 2\.\d\d\] above the mean of 10 random architectures "
               r"trained the same way \(96\.20 % \[9\d\.\d\d, 9\d\.\d\d\]\): more than chance\."),
        (0.003, r"That is 0\.30 percentage points \[-0\.\d\d, \d\.\d\d\] above the mean of 10 random architectures .*, "
                r"which may be chance: on these data, the search did not find an architecture that is clearly better"),
        (0.0, r"That is the same as the mean of 10 random architectures"),
        (-0.003, r"0\.30 percentage points \[-0\.\d\d, \d\.\d\d\] below the mean of 10 random architectures .*, which "
                 r"may be chance: on these data, the search did not find an architecture that is better"),
        (-0.03, r"\[2\.\d\d, 3\.\d\d\] below .*, more than chance: on these data, the search did not find an "
                r"architecture that is better"),
    ],
)  # fmt: skip
def test_headline_is_honest(examples: Any, gain: float, words: str) -> None:
    results = examples.make(examples.CELL, "nb201", 15625, gain=gain)
    assert re.search(words, plain(" ".join(sentences(results))))


def test_headline_of_earlier_results_has_no_intervals(examples: Any) -> None:
    results = examples.cell_results()
    for run in (run for side in results.comparison for run in side.runs):
        run.resampled = None
    for one in results.predictors:
        one.resampled = None
    assert "[" not in " ".join(sentences(results))
    assert "which may be chance" in " ".join(sentences(results))
    assert "Bars, and brackets everywhere" not in render(results)


def test_headline_says_what_single_runs_do_not(examples: Any) -> None:
    results = examples.cell_results()
    assert "are those of seed 1, the best of 3 on validation data." in page_of(results)
    for contender in results.comparison:
        contender.runs = contender.runs[:1]
    assert "those of seed" not in page_of(results)
    said = " ".join(sentences(results))
    assert said.count("Each was trained once: another seed may change this.") == 1


def test_ensembles_are_contenders_once(examples: Any) -> None:
    results = examples.cell_results()
    names = [entry.name for entry in entries(results)]
    assert names[-2:] == ["ensemble of 5", "ensemble of random architectures"]
    assert "best architecture" not in names
    results.comparison.append(
        examples.contender("ensemble of 5", Role.MIXTURE, [examples.draw(examples.CELL, _Fixed())], 0.97, 0.0)
    )
    assert [entry.name for entry in entries(results)].count("ensemble of 5") == 1


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_missing_extra(examples: Any, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    library.cache_clear()
    with pytest.raises(MissingExtra, match=r"Writing the report needs .* pip install 'polyarch\[report\]'"):
        render(examples.cell_results())


def test_text() -> None:
    assert percent(0.97314) == "97.31\u00a0%"
    assert (count(12345), count(1e6), count(0.0025)) == ("12,345", "1,000,000", "0.0025")
    assert [figures(value) for value in (0.9, -2.43, 1234.0, 56789.2)] == ["0.9000", "-2.430", "1234", "56,789"]
    limits = {"params": 1e5, "latency": 0.01}
    assert limits_text(limits) == "parameters at most 100,000; seconds per forward pass at most 0.01"
    assert limits_text({}) == ""
    assert breakable("a<b|c") == "a&lt;b|<wbr>c"
    assert (several(1, "seed"), several(1234, "seed")) == ("1 seed", "1,234 seeds")
    assert [listed(items) for items in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert (the("draw"), the("draw, trained further")) == ("the draw", "the draw, trained further,")


def test_differences_in_words() -> None:
    draws = np.linspace(0.0, 0.01, 101)
    text = ScoreText(METRICS["accuracy"])
    found = [text.compared(Estimate(value, draws)) for value in (0.012, -0.012, 1e-9)]
    assert [plain(one) for one in found] == [
        "1.20 percentage points [0.03, 0.97] above", "1.20 percentage points [-0.97, -0.03] below", "the same as",
    ]  # fmt: skip
    assert plain(text.compared(Estimate(0.012))) == "1.20 percentage points above"
    assert ScoreText(METRICS["rmse"]).compared(Estimate(-0.5)) == "0.5000 below"


class _Fixed:
    """Chooses the first option, always."""

    def choice(self, options: list[str]) -> str:
        return options[0]
