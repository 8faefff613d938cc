"""How far to trust the ranking, in plain words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from record_examples import interval
from rendered import page_of, read_again, section_of
from report_examples import cell_results

from polyarch.methods.one_shot.record import OneShotRecord, RankingRecord, TrustRecord
from polyarch.methods.one_shot.report import trust_rows, trust_sentences
from polyarch.ranking import trust
from polyarch.results import Results

pytest.importorskip("altair", reason="needs the extra 'report'")

AGREE = (0.81, 0.6, 0.9)


def ranking_of(results: Results) -> RankingRecord:
    record = results.found(OneShotRecord)
    assert record is not None and record.ranking is not None
    return record.ranking


def trust_of(results: Results) -> TrustRecord:
    found = ranking_of(results).trust
    assert found is not None
    return found


def said(**changes: Any) -> tuple[str, ...]:
    found = trust_of(cell_results())
    for name, values in changes.items():
        setattr(found, name, None if values is None else interval(*values))
    return tuple(sentence.replace("\u00a0", " ") for sentence in trust_sentences(found))


def test_the_report_shows_numbers_and_words() -> None:
    section = section_of(cell_results(), "ranking-trust", "top")
    for words in (
        "The two estimators agree roughly (0.62, 0.32 to 0.82): the top is likely better than the bottom",
        "Supernets trained with different seeds agree closely (0.81, 0.60 to 0.90): another training run would",
        "Other estimators put 4 % of the other architectures ahead of the one that training speed (SoTL) ranks first",
        "<td class=\"number\">0.60 to 0.90</td>",
        "<td class=\"number\">0 % to 17 %</td>",
        "over 24 architectures",
    ):  # fmt: skip
        assert words in section, words


@pytest.mark.parametrize(
    ("agreement", "words"),
    [
        (AGREE, "agree closely (0.81"),
        ((0.8, 0.7, 0.9), "agree closely"),
        ((0.79, 0.7, 0.9), "agree roughly"),
        ((0.5, 0.1, 0.7), "agree roughly"),
        ((0.3, 0.1, 0.5), "agree only slightly"),
        ((0.1, 0.01, 0.2), "agree hardly at all"),
        ((-1.0000000000000002, -1.0, -0.8), "agree hardly at all"),
        ((None, None, None), "cannot be compared: one side gives all architectures the same score"),
    ],
)
def test_words_of_agreement(agreement: tuple[float | None, ...], words: str) -> None:
    assert words in said(estimator_agreement=agreement)[0]
    assert words in said(seed_agreement=agreement)[1]


@pytest.mark.parametrize(
    ("low", "high", "is_chance"), [(0.01, 0.9, False), (0.0, 0.9, True), (-0.3, 0.9, True), (-0.9, -0.1, False)]
)
def test_an_interval_with_zero_may_be_chance(low: float, high: float, is_chance: bool) -> None:
    assert ("may be chance" in said(estimator_agreement=(0.5, low, high))[0]) == is_chance


@pytest.mark.parametrize(
    ("high", "words"), [(0.1, "near the top"), (0.4, "better than average, but"), (0.6, "is not confirmed")]
)
def test_words_of_the_first_place(high: float, words: str) -> None:
    assert words in said(top_rank_interval=(0.02, 0.0, high))[-1]


def test_one_supernet_says_nothing_of_seeds() -> None:
    found = said(seed_agreement=None)
    assert len(found) == 2 and "seeds" not in " ".join(found)


def test_what_is_not_known_is_left_out() -> None:
    results = cell_results()
    found = trust_of(results)
    found.estimator_agreement = found.top_rank_interval = interval(None, None, None)
    assert [value for _, value, _ in trust_rows(found)] == ["–", "0.81", "–"]
    assert len(list(trust_sentences(found))) == 2
    ranking_of(results).trust = None
    assert "ranking-trust" not in page_of(results)


def test_scores_become_a_record_in_the_file(tmp_path: Path) -> None:
    """From scores to the report: the values of `trust` fit the record, and the record survives the file."""
    results = cell_results()
    scored = ranking_of(results).architectures
    scores = {name: [item.score(name) for item in scored] for name in ("sotl", "val_acc")}
    values = trust(scores, [scores["sotl"], scores["val_acc"]], resamples=20).to_dict()
    top = values.pop("top")
    ranking_of(results).trust = TrustRecord(**values, top_architecture=scored[top].architecture)
    assert read_again(results, tmp_path) == results
    assert trust_of(results).seed_agreement == trust_of(results).estimator_agreement
    assert scored[top].key.replace("|", "|<wbr>") in section_of(results, "ranking-trust", "top")
