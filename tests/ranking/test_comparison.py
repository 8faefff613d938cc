"""Tops and paired differences of estimators, against an enumeration of all bootstrap samples."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from polyarch.errors import InvalidInput
from polyarch.ranking import Interval, compare_estimators, rank_quality, top_k

TRUTH = [1.0, 2.0, 4.0, 3.0]
SCORES = {"one": [[1.0, 3.0, 2.5, 2.0], [0.0, 1.0, 2.0, 3.0]], "two": [[2.0, 1.0, 4.0, 3.0], [4.0, 1.5, 3.0, 2.0]]}


def spearman(x: list[float], y: list[float]) -> float | None:
    return None if len(set(x)) == 1 or len(set(y)) == 1 else float(stats.spearmanr(x, y).statistic)


def enumerated(measure: str, seeds: int) -> list[float]:
    """The difference of the means over seeds in every sample of seeds and of the four architectures, once each.

    The mean over n resampled seeds is moved away from that over all seeds by sqrt(n / (n - 1)).
    """
    wider = math.sqrt(seeds / (seeds - 1)) if seeds > 1 else 0.0
    found = []
    for rows in product(range(4), repeat=4):
        truth = [TRUTH[row] for row in rows]
        values = {}
        for name, by_seed in SCORES.items():
            for seed in range(seeds):
                scores = [by_seed[seed][row] for row in rows]
                values[name, seed] = spearman(scores, truth) if measure == "spearman" else top_k(scores, truth, 2)
        if any(value is None for value in values.values()):
            continue
        differences = np.array([values["one", seed] - values["two", seed] for seed in range(seeds)])  # type: ignore[operator]
        for drawn in product(range(seeds), repeat=seeds):
            whole = differences.mean()
            found.append(float(whole + wider * (differences[list(drawn)].mean() - whole)))
    return found


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("measure", ["spearman", "top"])
def test_ends_are_quantiles_of_all_samples(measure: str, seeds: int) -> None:
    """At most 5 % of all samples lie below the 5 % quantile and at least 5 % up to it; within 2 % for 4,000 draws."""
    scores = {name: by_seed[:seeds] for name, by_seed in SCORES.items()}
    comparison = compare_estimators(scores, TRUTH, k=2, confidence=0.9, resamples=4000)
    (found,) = comparison.differences
    assert (found.first, found.second) == ("one", "two")
    interval: Interval | None = getattr(found, measure)
    assert interval is not None and interval.low is not None and interval.high is not None
    everything = np.array(enumerated(measure, seeds))
    assert np.mean(everything < interval.low - 1e-9) < 0.07 and np.mean(everything <= interval.low + 1e-9) > 0.03
    assert np.mean(everything > interval.high + 1e-9) < 0.07 and np.mean(everything >= interval.high - 1e-9) > 0.03


def test_values_are_means_over_seeds() -> None:
    comparison = compare_estimators(SCORES, TRUTH, k=2, resamples=10)
    (found,) = comparison.differences
    rhos = {name: [spearman(scores, TRUTH) for scores in by_seed] for name, by_seed in SCORES.items()}
    means = {name: np.mean([value for value in values if value is not None]) for name, values in rhos.items()}
    assert found.spearman.value == pytest.approx(means["one"] - means["two"], abs=1e-12)
    # The best two by "one" are 2, 4 and 4, 3; by "two" 4, 3 and 1, 4.
    one, two = comparison.top["one"], comparison.top["two"]
    assert one.k == 2
    assert [one.mean.value, two.mean.value] == pytest.approx([3.25, 3.0])
    assert [one.spread, two.spread] == pytest.approx([0.75, 1.0])  # 1 and 0.5; 0.5 and 1.5
    assert found.top is not None and found.top.value == pytest.approx(0.25)
    assert rank_quality(SCORES["one"], TRUTH, resamples=2).spearman.value == pytest.approx(means["one"], abs=1e-12)


def test_what_both_estimators_share_cancels_out() -> None:
    """Estimators of the same order differ by nothing in every sample, however few architectures there are."""
    generator = np.random.default_rng(0)
    truth, scores = generator.normal(size=12), generator.normal(size=12)
    comparison = compare_estimators(
        {"one": scores.tolist(), "two": (3 * scores).tolist()}, truth.tolist(), resamples=50
    )
    (found,) = comparison.differences
    assert found.spearman == found.top == Interval(0.0, 0.0, 0.0)
    assert comparison.top["one"].mean.low != comparison.top["one"].mean.high


def test_one_seed_is_judged_as_before() -> None:
    """One row of predictions has the bits of plain predictions."""
    scores = SCORES["two"][0]
    assert rank_quality([scores], TRUTH, resamples=20) == rank_quality(scores, TRUTH, resamples=20)


def test_intervals_know_that_seeds_differ() -> None:
    """The same correlations in all samples of one seed; a seed with the opposite order widens the interval."""
    truth = list(map(float, range(30)))
    both = rank_quality([truth, truth[::-1]], truth, resamples=200).spearman
    assert both.value == pytest.approx(0, abs=1e-12) and both.low == pytest.approx(-1) and both.high == pytest.approx(1)
    alone = rank_quality([truth, truth], truth, resamples=200).spearman
    assert alone.low == pytest.approx(1)


def test_no_top_of_ten_architectures() -> None:
    scores = list(map(float, range(10)))
    comparison = compare_estimators({"one": scores, "two": scores[::-1]}, scores, resamples=5)
    assert comparison.top == {} and comparison.differences[0].top is None
    assert comparison.differences[0].spearman.value == pytest.approx(2)


def test_constant_scores_have_no_difference() -> None:
    comparison = compare_estimators({"one": [1.0, 1.0, 1.0], "two": [1.0, 2.0, 3.0]}, [1.0, 2.0, 3.0], resamples=5)
    assert comparison.differences[0].spearman == Interval(None, None, None)


@pytest.mark.parametrize(
    ("scores", "k", "words"),
    [
        ({"one": [1.0, 2.0, 3.0], "two": [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]}, 1, "as many seeds"),
        ({"one": [1.0, 2.0]}, 1, "one prediction per true value"),
        ({"one": [1.0, 2.0, float("nan")]}, 1, "finite"),
        ({"one": [1.0, 2.0, 3.0]}, 0, "a top of 1 or more"),
    ],
)
def test_mistakes(scores: dict[str, list[float]], k: int, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        compare_estimators(scores, [1.0, 2.0, 3.0], k=k)
