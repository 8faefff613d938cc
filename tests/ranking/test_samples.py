"""Rank statistics of bootstrap samples, against scipy on every sample."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from polyarch.errors import InvalidInput
from polyarch.ranking import RankSamples, top_k
from polyarch.ranking import samples as samples_module
from polyarch.ranking.bootstrap import Resamples

GENERATOR = np.random.default_rng(0)
TRUTH = GENERATOR.integers(6, size=9).astype(float).tolist()  # with ties
SCORES = GENERATOR.integers(5, size=(2, 9)).astype(float).tolist()
SAMPLES = RankSamples(TRUTH, resamples=40, seed=3)


def drawn() -> list[tuple[list[int], list[int]]]:
    """The seeds and architectures of every sample, all of them first."""
    resamples = Resamples(9, 2, resamples=40, seed=3)
    return [([0, 1], list(range(9))), *resamples.draws(lambda seeds, rows: (seeds.tolist(), rows.tolist()))]


def test_spearman_is_that_of_every_sample() -> None:
    found = SAMPLES.spearman(SCORES)
    assert found.shape == (41,)
    for value, (seeds, rows) in zip(found, drawn(), strict=True):
        pairs = [([SCORES[seed][row] for row in rows], [TRUTH[row] for row in rows]) for seed in seeds]
        assert value == pytest.approx(np.mean([stats.spearmanr(*pair).statistic for pair in pairs]), abs=1e-12)


def test_tops_are_those_of_every_sample() -> None:
    for value, (seeds, rows) in zip(SAMPLES.top(SCORES, 3), drawn(), strict=True):
        pairs = [([SCORES[seed][row] for row in rows], [TRUTH[row] for row in rows]) for seed in seeds]
        assert value == pytest.approx(np.mean([top_k(*pair, 3) for pair in pairs]))


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SAMPLES.spearman(SCORES), SAMPLES.top(SCORES, 2)
    monkeypatch.setattr(samples_module, "LARGEST_BLOCK", 30)
    assert np.array_equal(SAMPLES.spearman(SCORES), whole[0]) and np.array_equal(SAMPLES.top(SCORES, 2), whole[1])


def test_constant_scores_rank_nothing() -> None:
    found = SAMPLES.spearman([1.0] * 9)
    assert np.isnan(found).all() and SAMPLES.interval(found).value is None


def test_a_top_of_nobody() -> None:
    with pytest.raises(InvalidInput, match=r"k in 1\.\.9\. Got 10"):
        SAMPLES.top(SCORES, 10)
