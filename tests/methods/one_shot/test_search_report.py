"""The search of a one-shot run in its report: score against size, shares of options, the best architectures."""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest
from rendered import charts_of, page_of, rows

from polyarch.methods.one_shot.plots import best_quarter, front, ordered, shares_of_options
from polyarch.methods.one_shot.record import OneShotRecord, SearchRecord
from polyarch.methods.one_shot.report import section, top
from polyarch.results import Results

pytest.importorskip("altair", reason="needs the extra 'report'")


@pytest.fixture
def examples() -> Any:
    """The module of example results."""
    return importlib.import_module("report_examples")


def search_of(results: Results) -> SearchRecord:
    record = results.found(OneShotRecord)
    assert record is not None and record.search is not None
    return record.search


@pytest.mark.parametrize(("smallest", "scale"), [(500, "log"), (5000, "linear"), (0, "linear")])
def test_sizes_of_many_magnitudes_get_a_logarithmic_scale(examples: Any, smallest: int, scale: str) -> None:
    results = examples.cell_results()
    search = search_of(results)
    search.evaluated[3].parameters = smallest
    layers = charts_of(results)["sizes"]["layer"]
    assert {layer["encoding"]["x"]["scale"].get("type", "linear") for layer in layers} == {scale}


def test_scores_against_size_show_every_architecture_once(examples: Any) -> None:
    results = examples.cell_results()
    search = search_of(results)
    search.evaluated.append(search.evaluated[0])
    spec = charts_of(results)["sizes"]
    keys = {"|".join(item.architecture.values()): item for item in search.evaluated}
    found = rows(spec, "architecture", "parameters", "score")
    assert {key for key, _, _ in found} == set(keys)
    for key, parameters, score in found:
        assert (parameters, score) == (keys[key].parameters, keys[key].score("sotl"))
    assert (search.limits["params"],) in rows(spec, "parameters")
    sizes = {len(values) for values in spec["datasets"].values()}
    assert len(keys) in sizes


def test_a_limit_far_away_does_not_squeeze_the_points(examples: Any) -> None:
    results = examples.cell_results()
    search = search_of(results)
    search.limits["params"] = 1e9
    assert (1e9,) not in rows(charts_of(results)["sizes"], "parameters")


@pytest.mark.parametrize("maximise", [True, False])
def test_front_against_brute_force(maximise: bool) -> None:
    generator = random.Random(0)
    for _ in range(200):
        count = generator.randrange(1, 12)
        sizes = [generator.randrange(6) for _ in range(count)]
        scores = [float(generator.randrange(6)) for _ in range(count)]
        gains = [score if maximise else -score for score in scores]
        undominated = {
            (sizes[i], scores[i])
            for i in range(count)
            if not any(
                sizes[j] <= sizes[i] and gains[j] >= gains[i] and (sizes[j], gains[j]) != (sizes[i], gains[i])
                for j in range(count)
            )
        }
        found = [(sizes[i], scores[i]) for i in front(sizes, scores, maximise=maximise)]
        assert set(found) == undominated
        assert found == sorted(undominated)


def test_shares_of_options_among_the_best_quarter_and_all(examples: Any) -> None:
    results = examples.own_results()
    search = search_of(results)
    items = ordered(search)
    best, everything = shares_of_options(search, results.space["choices"])
    for shares, among in ((best, best_quarter(items)), (everything, items)):
        assert len(among) in (-(-len(items) // 4), len(items))
        for choice, options in shares.choices.items():
            for option, share in options.items():
                assert share == sum(item.architecture[choice] == option for item in among) / len(among)
    assert rows(charts_of(results)["options"], "choice", "option", "share") == [
        (choice, option, share) for choice, options in best.choices.items() for option, share in options.items()
    ]
    seen, _ = shares_of_options(search, {})  # results that do not say which options there are
    assert {choice: set(options) for choice, options in seen.choices.items()} == {
        choice: {item.architecture[choice] for item in items} for choice in results.space["choices"]
    }
    scores = [item.score("sotl") for item in items]
    assert scores == sorted(scores, reverse=True)


def test_table_of_the_top(examples: Any) -> None:
    results = examples.cell_results()
    search = search_of(results)
    best = results.artifact["architecture"]
    table = top(search, best)
    assert table is not None
    assert table.headings[:3] == ("#", "architecture", "parameters")
    assert "parameters" not in table.headings[3:]
    assert len(table.lines) == 20
    assert [line.is_best for line in table.lines] == [True] + [False] * 19
    items = ordered(search)[:20]
    assert [line.cells[3].number for line in table.lines] == [item.score("sotl") for item in items]
    items[1].truth = 0.9
    known = top(search, best)
    assert known is not None
    assert known.headings[-1] == "truth"
    assert [line.cells[-1].number for line in known.lines[:3]] == [None, 0.9, None]
    search.evaluated = []
    assert top(search, best) is None
    assert section(examples.unfinished_results()).values["top"] is None


def test_what_was_searched_is_shown_before_it_is_trained_alone(examples: Any) -> None:
    results = examples.cell_results(comparison=None, artifact=None, predictors=[])
    best = search_of(results).best[0]
    assert [tile.label for tile in section(results).tiles or ()] == ["parameters", "searched"]
    page = page_of(results)
    assert "has not reached the comparison yet" in page and f"{best.parameters:,} parameters." in page
    assert 'id="architecture"' in page and 'id="top"' in page and 'id="use"' not in page


def test_an_early_end_is_named(examples: Any) -> None:
    results = examples.cell_results()
    assert not any("ended early" in sentence for sentence in section(results).sentences or ())
    search_of(results).exhausted = True
    count = len(search_of(results).evaluated)
    assert f"The search ended early, after {count} networks: it found no other one." in (
        section(results).sentences or ()
    )
    assert f"The search ended early, after {count} networks" in page_of(results)


def test_the_tile_counts_networks_where_they_are_known(examples: Any) -> None:
    results = examples.cell_results()
    results.space["networks"] = 5044
    assert [tile.note for tile in section(results).tiles or () if tile.label == "searched"] == ["of 5,044 networks"]


def test_limits_are_named(examples: Any) -> None:
    results = examples.cell_results()
    assert list(section(results).sentences or ())[-1] == "Limits of the search: parameters at most 24,000."
    assert not any("Limits" in sentence for sentence in section(examples.table_results()).sentences or ())
