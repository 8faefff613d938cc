"""Rank statistics of bootstrap samples, against scipy on every sample."""

from __future__ import annotations

import math
from collections.abc import Callable

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


def wider(statistic: Callable[[list[float], list[float]], float], seeds: list[int], rows: list[int]) -> float:
    """The mean over the seeds of a sample, sqrt(2) times as far from that over both seeds."""
    truth = [TRUTH[row] for row in rows]
    by_seed = [statistic([scores[row] for row in rows], truth) for scores in SCORES]
    whole = float(np.mean(by_seed))
    return whole + math.sqrt(2) * (float(np.mean([by_seed[seed] for seed in seeds])) - whole)


def test_spearman_is_that_of_every_sample() -> None:
    found = SAMPLES.spearman(SCORES)
    assert found.shape == (41,)
    for value, (seeds, rows) in zip(found, drawn(), strict=True):
        expected = wider(lambda x, y: float(stats.spearmanr(x, y).statistic), seeds, rows)
        assert value == pytest.approx(expected, abs=1e-12)


def test_tops_are_those_of_every_sample() -> None:
    for value, (seeds, rows) in zip(SAMPLES.top(SCORES, 3), drawn(), strict=True):
        assert value == pytest.approx(wider(lambda x, y: top_k(x, y, 3), seeds, rows))


def test_seeds_spread_the_draws_as_new_ones_would() -> None:
    """If all scores of a seed agree, the top is that of the architectures, and all spread comes from the seeds."""
    truth = [0.0, 1.0, 2.0] * 20  # three kinds of architectures; almost every sample has some of the second and third
    liked = [[value if value == kind else 0.0 for value in truth] for kind in (1.0, 2.0, 2.0)]
    draws = RankSamples(truth, resamples=20_000, seed=1).top(liked, 1)
    assert draws[0] == pytest.approx(5 / 3)
    assert draws[1:].var() == pytest.approx(np.var([1.0, 2.0, 2.0], ddof=1) / 3, rel=0.05)


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


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_intervals_of_differences_cover_what_they_estimate(spread: float) -> None:
    """Two estimators, two seeds, 60 architectures: noise of architectures, of both, and of the quality of a seed.

    The interval is a conservative one without the last (resampling counts the noise of both twice) and a fair one
    with it: at least 92 % of 400 samples, whose standard error is 1.1 %.
    """
    generator = np.random.default_rng(0)

    def draw(seeds: int) -> tuple[np.ndarray, list[np.ndarray]]:
        truth = generator.normal(size=60)
        sides = []
        for noise in (0.7, 0.9):
            scale = noise * np.exp(spread * generator.normal(size=(seeds, 1)))
            own, shared = generator.normal(size=(seeds, 60)), generator.normal(size=60)
            sides.append(truth + (noise * shared + scale * own) / math.sqrt(2))
        return truth, sides

    truths, sides = zip(*(draw(1) for _ in range(4000)), strict=True)
    expected = np.mean(
        [
            stats.spearmanr(a[0], y).statistic - stats.spearmanr(b[0], y).statistic
            for y, (a, b) in zip(truths, sides, strict=True)
        ]
    )
    covered = 0
    for seed in range(400):
        truth, (first, second) = draw(2)
        samples = RankSamples(truth.tolist(), resamples=300, seed=seed)
        found = samples.interval(samples.spearman(first.tolist()) - samples.spearman(second.tolist()))
        assert found.low is not None and found.high is not None
        covered += found.low <= expected <= found.high
    assert covered / 400 >= 0.92
