"""Intervals of scores over resampled examples and seeds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from polyarch.randomness import generator_at
from polyarch.results import Estimate, NetworkRecord, ResampledRecord
from polyarch.tasks import RESAMPLES, Classification, MultiLabel, Regression, Task, resampled_scores
from polyarch.tasks.resampling import resampled_rows

CLASSES = Classification(("a", "b", "c"))


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator_at(seed, "test"))


def network(score: float, resampled: ResampledRecord | None, seed: int = 0) -> NetworkRecord:
    return NetworkRecord(architecture={}, seed=seed, score=score, loss=0.1, valid_score=0.9, resampled=resampled)


def right_and_wrong(right: Tensor) -> Tensor:
    """Outputs (1, N, 2) that are right where the mask says so, if all targets are 0."""
    return torch.stack([right.double(), 1 - right.double()], -1)[None]


class TestResampledScores:
    @pytest.mark.parametrize("task", [CLASSES, Classification(("a", "b", "c"), metric="balanced_accuracy")])
    def test_are_those_of_the_drawn_examples(self, task: Task) -> None:
        outputs, targets = normal(0, 4, 50, 3), torch.arange(50) % 3
        weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
        found = resampled_scores(task, outputs, targets, weights)
        for place, rows in enumerate(resampled_rows(50)[:5]):
            expected = task.scores(outputs[:, rows], targets[rows], weights)
            assert found["score"][place] == pytest.approx(expected[task.selection.name], rel=1e-5)
            assert found["loss"][place] == pytest.approx(expected["loss"], rel=1e-5)

    def test_numbers_keep_their_members(self) -> None:
        task, targets = Regression(("y",), (0.0,), (1.0,)), normal(1, 30, 1)
        outputs = normal(2, 3, 30, 2)
        found, rows = resampled_scores(task, outputs, targets), resampled_rows(30)[7]
        expected = task.scores(outputs[:, rows], targets[rows])
        assert found["score"][7] == pytest.approx(expected["rmse"], rel=1e-5)
        assert found["loss"][7] == pytest.approx(expected["loss"], rel=1e-5)

    def test_labels(self) -> None:
        task, targets = MultiLabel(("hot", "wet")), (normal(3, 40, 2) > 0).long()
        found, rows = resampled_scores(task, normal(4, 1, 40, 2), targets), resampled_rows(40)[0]
        assert found["score"][0] == pytest.approx(task.scores(normal(4, 1, 40, 2)[:, rows], targets[rows])["micro_f1"])

    def test_a_sample_without_a_score_has_none(self) -> None:
        task = Classification(("a", "b"), metric="auroc")
        found = resampled_scores(task, normal(5, 1, 4, 2), torch.tensor([0, 0, 0, 1]))
        alone = [bool((rows < 3).all() or (rows == 3).all()) for rows in resampled_rows(4)]
        assert [score is None for score in found["score"]] == alone and any(alone)


class TestIntervals:
    def test_cover_the_true_accuracy(self) -> None:
        """Of 300 test sets of 100 examples each, on which a network is right with a probability of 0.8."""
        task, covered = Classification(("a", "b")), 0
        for seed in range(300):
            right = torch.rand(100, generator=generator_at(seed, "right")) < 0.8
            outputs, targets = right_and_wrong(right), torch.zeros(100, dtype=torch.int64)
            record = ResampledRecord.of(task, outputs, targets)
            interval = Estimate.of([network(float(right.double().mean()), record)], examples=100).interval
            assert interval is not None
            covered += interval[0] <= 0.8 <= interval[1]
        assert 0.91 <= covered / 300 <= 0.98

    def test_differences_are_paired(self) -> None:
        """Two networks that fail on the same examples but for 2 of 400 hardly differ, whichever these are."""
        task, targets = Classification(("a", "b")), torch.zeros(400, dtype=torch.int64)
        right = torch.rand(400, generator=generator_at(0, "right")) < 0.7
        other = right.clone()
        other[right.nonzero().flatten()[:2]] = False
        one, two = (
            Estimate.of([network(float(r.double().mean()), ResampledRecord.of(task, right_and_wrong(r), targets))])
            for r in (right, other)
        )
        (low, high), alone = one.minus(two).interval or (0, 0), one.interval or (0, 0)
        assert one.minus(two).value == pytest.approx(0.005)
        assert 0 <= low < 0.005 < high < 0.015 < alone[1] - alone[0]

    def test_a_perfect_score_is_not_certain(self) -> None:
        """Clopper and Pearson: with a share of errors of 1 - 0.025^(1/n), n examples are all right once in forty."""
        perfect = ResampledRecord(score=[1.0] * RESAMPLES, loss=[0.1] * RESAMPLES)
        low, high = Estimate.of([network(1.0, perfect)], examples=50).interval or (0, 0)
        assert low**50 == pytest.approx(0.025) and high == 1.0
        assert Estimate.of([network(1.0, perfect)], "loss").interval == (0.1, 0.1)

    def test_seeds_spread_as_new_ones_do(self) -> None:
        """Runs that differ by their seeds alone: the variance of the draws is that of the mean of new seeds."""
        scores = np.random.default_rng(0).normal(0.9, 0.02, 5)
        runs = [
            network(score, ResampledRecord(score=[score] * RESAMPLES, loss=[0.1] * RESAMPLES), seed)
            for seed, score in enumerate(scores.tolist())
        ]
        draws = Estimate.of(runs).draws
        assert draws is not None
        assert draws.std() == pytest.approx(scores.std(ddof=1) / 5**0.5, rel=0.15)

    def test_shared_seeds_are_paired(self) -> None:
        """Where every run of one side is better by 0.01 than that of the other with the same seed, no draw is not."""

        def side(shift: float, stream: str) -> Estimate:
            scores = [0.8 + shift, 0.9 + shift, 0.95 + shift]
            records = [ResampledRecord(score=[one] * RESAMPLES, loss=[0.1] * RESAMPLES) for one in scores]
            return Estimate.of([network(*pair) for pair in zip(scores, records, strict=True)], stream=stream)

        assert side(0.01, "").minus(side(0.0, "")).is_clear
        assert not side(0.01, "one").minus(side(0.0, "other")).is_clear

    def test_nothing_is_known_of_earlier_records(self) -> None:
        known = network(0.9, ResampledRecord(score=[0.9, 0.8], loss=[0.1, 0.2]))
        old = Estimate.of([known, network(0.8, None)])
        assert old.value == pytest.approx(0.85) and old.interval is None and not old.is_clear
        assert Estimate.of([known]).minus(old).interval is None

    def test_missing_values_do_not_count(self) -> None:
        record = ResampledRecord(score=[None, *([0.5] * 10), *([0.7] * 10)], loss=[0.1] * 21)
        assert Estimate.of([network(0.6, record)]).interval == (0.5, 0.7)
        nothing = ResampledRecord(score=[None], loss=[0.1])
        assert Estimate.of([network(0.6, nothing)]).interval is None
