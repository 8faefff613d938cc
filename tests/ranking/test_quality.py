from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polyarch.errors import InvalidInput
from polyarch.ranking import Interval, rank_quality, top_k

MEASURES: dict[str, Callable[[Sequence[float], Sequence[float]], float]] = {
    "spearman": lambda x, y: float(stats.spearmanr(x, y).statistic),
    "kendall": lambda x, y: float(stats.kendalltau(x, y).statistic),
    "pearson": lambda x, y: float(stats.pearsonr(x, y).statistic),
}


def noisy(count: int, seed: int = 0) -> tuple[list[float], list[float]]:
    generator = np.random.default_rng(seed)
    truth = generator.normal(90, 2, count)
    return (truth + generator.normal(0, 1, count)).tolist(), truth.tolist()


def kendall_by_pairs(x: Sequence[float], y: Sequence[float]) -> float:
    """tau-b = (concordant - discordant) / sqrt((pairs - ties in x) (pairs - ties in y))."""
    score = x_pairs = y_pairs = 0.0
    for i in range(len(x)):
        for j in range(i):
            a, b = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
            score += a * b
            x_pairs += abs(a)
            y_pairs += abs(b)
    return float(score / math.sqrt(x_pairs * y_pairs))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("ties", [False, True])
def test_correlations_equal_scipy(measure: str, ties: bool) -> None:
    predicted, truth = noisy(40)
    if ties:
        predicted = [round(value) for value in predicted]
    quality = rank_quality(predicted, truth, resamples=5)
    assert quality.n == 40
    assert getattr(quality, measure).value == pytest.approx(MEASURES[measure](predicted, truth), abs=1e-12)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60)), min_size=3, max_size=9), st.sampled_from([0.1, 0.5, 2.0])
)
def test_sparse_kendall_equals_counting_pairs(pairs: list[tuple[int, int]], resolution: float) -> None:
    predicted, truth = [float(a) for a, _ in pairs], [b / 20 + 0.01 for _, b in pairs]
    rounded = [float(round(value / resolution)) for value in truth]
    value = rank_quality(predicted, truth, resolution=resolution, resamples=2).sparse_kendall.value
    if len(set(predicted)) == 1 or len(set(rounded)) == 1:
        assert value is None
    else:
        assert value == pytest.approx(kendall_by_pairs(predicted, rounded), abs=1e-12)


def test_sparse_kendall_by_hand() -> None:
    """90.01 and 90.04 are one value at a resolution of 0.1, so their wrong order does not count."""
    quality = rank_quality([2.0, 1.0, 3.0], [90.01, 90.04, 91.0], resamples=2)
    assert quality.kendall.value == pytest.approx(1 / 3)
    assert quality.sparse_kendall.value == pytest.approx(2 / math.sqrt(3 * 2))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(9000, 9100)), min_size=3, max_size=12),
    st.sampled_from([0.05, 0.1, 0.5]),
)
def test_sparse_kendall_does_not_depend_on_the_unit(pairs: list[tuple[int, int]], resolution: float) -> None:
    """Accuracies of 10,000 test images: those that end in 5 lie halfway between two steps of 0.1 points."""
    predicted, hits = [float(a) for a, _ in pairs], [b for _, b in pairs]
    percents, fractions = [hit / 100 for hit in hits], [hit / 10_000 for hit in hits]
    of_percents = rank_quality(predicted, percents, resolution=resolution, resamples=2)
    of_fractions = rank_quality(predicted, fractions, unit="fraction", resolution=resolution, resamples=2)
    assert of_percents.sparse_kendall == of_fractions.sparse_kendall


def test_sparse_kendall_of_fractions_by_hand() -> None:
    """As of the same accuracies in percent; without the unit, all three would be ties."""
    quality = rank_quality([2.0, 1.0, 3.0], [0.9001, 0.9004, 0.91], unit="fraction", resamples=2)
    assert quality.kendall.value == pytest.approx(1 / 3)
    assert quality.sparse_kendall.value == pytest.approx(2 / math.sqrt(3 * 2))


def test_no_sparse_kendall_without_accuracies() -> None:
    """Sums of losses have no points of accuracy."""
    quality = rank_quality([1.0, 2.0, 3.0], [-30.0, -20.0, -10.0], unit=None, resamples=2)
    assert quality.sparse_kendall == Interval(None, None, None)
    assert quality.kendall.value == pytest.approx(1)


class TestInterval:
    def test_holds_the_value_and_is_the_same_every_time(self) -> None:
        first, again = (rank_quality(*noisy(60), resamples=100) for _ in range(2))
        assert first == again
        for measure in (*MEASURES, "sparse_kendall"):
            interval: Interval = getattr(first, measure)
            assert interval.low is not None and interval.value is not None and interval.high is not None
            assert -1 <= interval.low < interval.value < interval.high <= 1

    def test_seed_matters(self) -> None:
        one, other = (rank_quality(*noisy(60), resamples=100, seed=seed).spearman for seed in (0, 1))
        assert one.value == other.value
        assert one.low != other.low

    def width(self, interval: Interval) -> float:
        assert interval.low is not None and interval.high is not None
        return interval.high - interval.low

    def test_narrower_with_more_architectures_and_less_confidence(self) -> None:
        few, many = (rank_quality(*noisy(count), resamples=100).kendall for count in (20, 320))
        assert self.width(many) < self.width(few) / 2  # 16 times the data: about a quarter
        unsure = rank_quality(*noisy(20), resamples=100, confidence=0.5).kendall
        assert self.width(unsure) < self.width(few)

    def test_quantiles_of_the_resampled_values(self) -> None:
        """Against scipy's own percentile bootstrap: ends within 0.04 for 400 resamples each."""
        predicted, truth = noisy(50)
        interval = rank_quality(predicted, truth, resamples=400).pearson
        theirs = stats.bootstrap(
            (predicted, truth), lambda x, y: stats.pearsonr(x, y).statistic,
            paired=True, vectorized=False, n_resamples=400, method="percentile", rng=np.random.default_rng(0),
        ).confidence_interval  # fmt: skip
        assert [interval.low, interval.high] == pytest.approx([theirs.low, theirs.high], abs=0.04)


@pytest.mark.parametrize(("predicted", "truth"), [([1.0] * 5, [1.0, 2, 3, 4, 5]), ([1.0, 2, 3, 4, 5], [7.0] * 5)])
def test_constant_side_has_no_correlation(predicted: list[float], truth: list[float]) -> None:
    quality = rank_quality(predicted, truth, resamples=10)
    for measure in (*MEASURES, "sparse_kendall"):
        assert getattr(quality, measure) == Interval(None, None, None)
    assert quality.to_dict()["kendall"] == {"value": None, "low": None, "high": None}


class TestChosenFew:
    predicted = (0.3, 0.9, 0.9, 0.1)
    truth = (94.0, 90.0, 92.0, 60.0)

    @pytest.mark.parametrize(("k", "mean"), [(1, 90.0), (2, 91.0), (3, 92.0), (4, 84.0)])
    def test_top_k_by_hand(self, k: int, mean: float) -> None:
        assert top_k(self.predicted, self.truth, k) == pytest.approx(mean)

    @pytest.mark.parametrize("k", [0, 5])
    def test_k_out_of_range(self, k: int) -> None:
        with pytest.raises(InvalidInput, match=rf"k in 1\.\.4. Got {k}"):
            top_k(self.predicted, self.truth, k)


@pytest.mark.parametrize("measure", [rank_quality, top_k])
@pytest.mark.parametrize(
    ("predicted", "truth", "complaint"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0], r"one prediction per true value. Got \(3,\) and \(2,\)"),
        ([1.0, 2.0, math.nan], [1.0, 2.0, 3.0], "finite predictions"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, math.inf], "finite predictions"),
        ([], [], "Expected"),
    ],
)
def test_input_that_does_not_fit(
    measure: Callable[[list[float], list[float]], object], predicted: list[float], truth: list[float], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        measure(predicted, truth)


def test_two_architectures_are_too_few() -> None:
    with pytest.raises(InvalidInput, match="3 or more architectures"):
        rank_quality([1.0, 2.0], [1.0, 2.0])


@pytest.mark.parametrize(
    "settings", [{"resolution": 0.0}, {"resolution": -1.0}, {"confidence": 1.5}, {"confidence": 0.0}]
)
def test_settings_that_make_no_sense(settings: dict[str, float]) -> None:
    (name,) = settings
    with pytest.raises(InvalidInput, match=name):
        rank_quality([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], resamples=5, **settings)  # type: ignore[arg-type]
