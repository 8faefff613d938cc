"""How far to trust the ranking, in plain words."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from polyarch.ranking import trust
from polyarch.reports.html import render
from polyarch.methods.one_shot.trust_report import trust_part
from polyarch.reports.words import key_of
from polyarch.results import RankingRecord, Results, TrustRecord

AGREE = (0.81, 0.6, 0.9)


@pytest.fixture
def examples() -> Any:
    """The module of example results."""
    return importlib.import_module("report_examples")


@pytest.fixture
def records() -> Any:
    """The module of example records."""
    return importlib.import_module("record_examples")


def said(examples: Any, records: Any, **changes: Any) -> tuple[str, ...]:
    ranking: RankingRecord = examples.cell_results().ranking
    assert ranking.trust is not None
    for name, values in changes.items():
        setattr(ranking.trust, name, None if values is None else records.interval(*values))
    part = trust_part(ranking)
    assert part is not None
    return tuple(sentence.replace("\u00a0", " ") for sentence in part.sentences)


def test_the_report_shows_numbers_and_words(examples: Any) -> None:
    page = " ".join(render(examples.cell_results()).replace("\u00a0", " ").split())
    section = page[page.index('id="ranking-trust"') : page.index('id="top"')]
    for words in (
        "The two estimators order architectures roughly alike (0.62, 0.32 to 0.82): the first ones are likely better",
        "Supernets with different seeds order architectures alike (0.81, 0.60 to 0.90): another training would",
        "Of all others, 4 % come before the first architecture by training speed (SoTL)",
        "<td class=\"number\">0.60 to 0.90</td>",
        "<td class=\"number\">0 % to 17 %</td>",
        "over 24 architectures",
    ):  # fmt: skip
        assert words in section, words


@pytest.mark.parametrize(
    ("agreement", "words"),
    [
        (AGREE, "order architectures alike (0.81"),
        ((0.8, 0.7, 0.9), "order architectures alike"),
        ((0.79, 0.7, 0.9), "roughly alike"),
        ((0.5, 0.1, 0.7), "roughly alike"),
        ((0.3, 0.1, 0.5), "only a little alike"),
        ((0.1, 0.01, 0.2), "differently"),
        ((-1.0000000000000002, -1.0, -0.8), "differently"),
        ((None, None, None), "order nothing: one side gives all architectures the same score"),
    ],
)
def test_words_of_agreement(examples: Any, records: Any, agreement: tuple[float | None, ...], words: str) -> None:
    assert words in said(examples, records, estimator_agreement=agreement)[0]
    assert words in said(examples, records, seed_agreement=agreement)[1]


@pytest.mark.parametrize(
    ("low", "high", "is_chance"), [(0.01, 0.9, False), (0.0, 0.9, True), (-0.3, 0.9, True), (-0.9, -0.1, False)]
)
def test_an_interval_with_zero_may_be_chance(
    examples: Any, records: Any, low: float, high: float, is_chance: bool
) -> None:
    assert ("may be chance" in said(examples, records, estimator_agreement=(0.5, low, high))[0]) == is_chance


@pytest.mark.parametrize(
    ("high", "words"), [(0.1, "near the top"), (0.4, "better than an average one, but"), (0.6, "is not confirmed")]
)
def test_words_of_the_first_place(examples: Any, records: Any, high: float, words: str) -> None:
    assert words in said(examples, records, top_rank_interval=(0.02, 0.0, high))[-1]


def test_one_supernet_says_nothing_of_seeds(examples: Any, records: Any) -> None:
    found = said(examples, records, seed_agreement=None)
    assert len(found) == 2 and "seeds" not in " ".join(found)


def test_what_is_not_known_is_left_out(examples: Any, records: Any) -> None:
    results = examples.cell_results()
    results.ranking.trust.estimator_agreement = records.interval(None, None, None)
    results.ranking.trust.top_rank_interval = records.interval(None, None, None)
    part = trust_part(results.ranking)
    assert part is not None
    assert [line.value for line in part.lines] == ["–", "0.81", "–"]
    assert len(part.sentences) == 2
    results.ranking.trust = None
    assert trust_part(results.ranking) is trust_part(None) is None
    assert "ranking-trust" not in render(results)


def test_scores_become_a_record_in_the_file(examples: Any) -> None:
    """From scores to the report: the values of `trust` fit the record, and the record survives the file."""
    results = examples.cell_results()
    scored = results.ranking.architectures
    scores = {name: [item.score(name) for item in scored] for name in ("sotl", "val_acc")}
    values = trust(scores, [scores["sotl"], scores["val_acc"]], resamples=20).to_dict()
    top = values.pop("top")
    results.ranking.trust = TrustRecord(**values, top_architecture=scored[top].architecture)
    again = Results.model_validate(json.loads(json.dumps(results.model_dump(mode="json"))))
    assert again == results
    assert results.ranking.trust.seed_agreement == results.ranking.trust.estimator_agreement
    part = trust_part(again.ranking)
    assert part is not None and part.key == key_of(scored[top].architecture)
