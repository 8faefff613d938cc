"""Conformal sets of classes: the guarantee by simulation, the papers' definitions, round trips and refusals."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import Tensor

from polyarch.errors import InvalidInput, UnknownName
from polyarch.predictive import ConformalSets, SetMethod, fit_sets, set_coverage, set_size
from polyarch.randomness import generator_at

METHODS: tuple[SetMethod, ...] = ("lac", "aps", "raps")
CLASSES = 5


def wrong_predictions(examples: int, generator: torch.Generator, sharpness: float = 2.0) -> tuple[Tensor, Tensor]:
    """Probabilities (N, C) and labels (N,) that follow other, flatter probabilities with a bias."""
    logits = torch.randn(examples, CLASSES, generator=generator, dtype=torch.float64)
    bias = torch.linspace(0, 0.5, CLASSES, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(2 * logits + bias, -1), 1, generator=generator)[:, 0]
    return torch.softmax(2 * sharpness * logits, -1), labels


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("coverage", "rank"), [(0.9, 23), (0.8, 20)])
def test_mean_coverage_over_calibration_sets_is_as_guaranteed(method: SetMethod, coverage: float, rank: int) -> None:
    """For 24 calibration examples with distinct scores, the coverage is k / 25 on average, k = ceil(25 coverage).

    That holds for the scores with random u. Sets without u, or with their most probable class added, cover more.
    """
    generator = generator_at(0, "simulation")
    exact, randomised, plain = [], [], []
    for _ in range(800):
        sets = fit_sets(*wrong_predictions(24, generator), coverage=coverage, method=method, generator=generator)
        probabilities, labels = wrong_predictions(100, generator)
        uniform = None if method == "lac" else torch.rand(100, generator=generator, dtype=torch.float64)
        exact.append(set_coverage(sets.scores(probabilities, uniform) <= sets.threshold, labels))
        randomised.append(set_coverage(sets(probabilities, uniform), labels))
        plain.append(set_coverage(sets(probabilities), labels))
    values = torch.tensor([exact, randomised, plain], dtype=torch.float64)
    means, error = values.mean(1).tolist(), values[0].std().item() / math.sqrt(800)
    assert error < 0.004
    assert means[0] == pytest.approx(rank / 25, abs=4 * error)
    assert coverage - 4 * error <= means[0] <= coverage + 1 / 25 + 4 * error
    assert (values[1] >= values[0]).all() and (values[2] >= values[1]).all()
    assert means[2] > means[1] or method == "lac"


def test_scores_by_hand() -> None:
    p = torch.tensor([[0.3, 0.5, 0.2]], dtype=torch.float64)
    half = torch.tensor([0.5], dtype=torch.float64)

    def scores(method: SetMethod, uniform: Tensor | None = None) -> list[float]:
        return ConformalSets(method, 0.9, 0.7, 20, penalty=0.1, free_ranks=1).scores(p, uniform)[0].tolist()

    assert scores("lac") == pytest.approx([0.7, 0.5, 0.8])
    assert scores("aps") == pytest.approx([0.5, 0.0, 0.8])
    assert scores("aps", half) == pytest.approx([0.65, 0.25, 0.9])
    assert scores("raps") == pytest.approx([0.6, 0.0, 1.0])
    assert scores("raps", half) == pytest.approx([0.75, 0.25, 1.1])


def test_adaptive_sets_are_those_of_the_paper() -> None:
    """Romano, Sesia and Candès (2020), section 2, with 1 - u for u.

    L is the smallest number of classes whose sorted probabilities sum to tau or more, V the share of the last of them
    beyond tau. The set has the L - 1 most probable classes if u <= V, else L.
    """
    generator = generator_at(1, "paper")
    probabilities, _ = wrong_predictions(300, generator)
    uniform = torch.rand(300, generator=generator, dtype=torch.float64)
    for tau in (0.3, 0.8, 0.97):
        sets = ConformalSets("aps", 0.9, tau, 20).scores(probabilities, uniform) <= tau
        for p, u, found in zip(probabilities, (1 - uniform).tolist(), sets, strict=True):
            falling, order = p.sort(descending=True)
            sums = falling.cumsum(0)
            last = int((sums < tau).sum())  # L - 1
            beyond = float((sums[last] - tau) / falling[last])
            truth = torch.zeros(CLASSES, dtype=torch.bool)
            truth[order[: last if u <= beyond else last + 1]] = True
            assert torch.equal(found, truth)


def test_thresholds_by_hand() -> None:
    """Nine examples of two classes with true probabilities 0.1..0.9: LAC's scores are 0.9..0.1, the 5th is 0.5."""
    p = torch.arange(1, 10, dtype=torch.float64) / 10
    sets = fit_sets(torch.stack([1 - p, p], 1), torch.ones(9, dtype=torch.int64), coverage=0.5)
    assert sets == ConformalSets("lac", 0.5, 0.5, 9)
    assert sets(torch.tensor([[0.5, 0.5], [0.6, 0.4]])).tolist() == [[True, True], [True, False]]


def test_sets_without_draws_contain_those_of_every_draw() -> None:
    generator = generator_at(2, "contain")
    calibration, (p, _) = wrong_predictions(200, generator), wrong_predictions(500, generator)
    for method in ("aps", "raps"):
        sets = fit_sets(*calibration, method=method, generator=generator_at(0, "u"))
        for u in (0.0, 0.4, 1.0):
            assert (sets(p) >= sets(p, torch.full((500,), u, dtype=torch.float64))).all()
        assert torch.equal(sets(p), sets(p, torch.zeros(500, dtype=torch.float64)))


def test_no_set_is_empty() -> None:
    """A sure and accurate classifier would leave LAC's sets empty where it is less sure."""
    generator = generator_at(3, "sure")
    p = torch.softmax(8 * torch.eye(CLASSES, dtype=torch.float64).repeat(20, 1), -1)
    sets = fit_sets(p, p.argmax(1), coverage=0.9)
    unsure = torch.softmax(torch.randn(50, CLASSES, generator=generator, dtype=torch.float64), -1)
    assert not (sets.scores(unsure) <= sets.threshold).any()
    assert set_size(sets(unsure)) == 1
    assert torch.equal(sets(unsure).int().argmax(1), unsure.argmax(1))


def test_equal_probabilities_have_ranks_in_order() -> None:
    scores = ConformalSets("aps", 0.9, 0.7, 20).scores(torch.full((1, 4), 0.25))
    assert scores.tolist() == [[0.0, 0.25, 0.5, 0.75]]


def test_the_penalty_keeps_unlikely_classes_out() -> None:
    generator = generator_at(4, "penalty")
    calibration, (p, y) = wrong_predictions(2000, generator), wrong_predictions(2000, generator)
    sizes, largest = [], []
    for penalty in (0.0, 0.1, 1.0):
        sets = fit_sets(*calibration, method="raps", generator=generator_at(0, "u"), penalty=penalty, free_ranks=2)
        assert set_coverage(sets(p), y) > 0.88
        sizes.append(set_size(sets(p)))
        largest.append(int(sets(p).sum(1).max()))
    assert sizes == sorted(sizes, reverse=True) and largest[0] > largest[2]
    aps = fit_sets(*calibration, method="aps", generator=generator_at(0, "u"))
    free = fit_sets(*calibration, method="raps", generator=generator_at(0, "u"), penalty=0.0)
    assert free.threshold == aps.threshold


def test_equal_generators_give_equal_thresholds() -> None:
    calibration = wrong_predictions(50, generator_at(5, "data"))
    one, two = (fit_sets(*calibration, method="aps", generator=generator_at(0, "u")) for _ in range(2))
    assert one == two
    assert one != fit_sets(*calibration, method="aps", generator=generator_at(1, "u"))


@pytest.mark.parametrize("method", METHODS)
def test_round_trip_through_json(method: SetMethod) -> None:
    p, y = wrong_predictions(50, generator_at(6, "data"))
    sets = fit_sets(p, y, method=method, generator=generator_at(0, "u"))
    again = ConformalSets.from_dict(json.loads(json.dumps(sets.to_dict())))
    assert again == sets and hash(again) == hash(sets)
    assert torch.equal(again(p), sets(p))


@pytest.mark.parametrize("method", METHODS)
def test_single_precision_has_the_same_sets(method: SetMethod) -> None:
    p, y = wrong_predictions(500, generator_at(7, "data"))
    sets = fit_sets(p.float(), y, method=method, generator=generator_at(0, "u"))
    assert torch.equal(sets(p.float()), sets(p.float().double()))


def test_refusals() -> None:
    p, y = wrong_predictions(9, generator_at(8, "data"))
    with pytest.raises(InvalidInput, match=r"at least 19 calibration examples .* coverage of 0.95. Got 9"):
        fit_sets(p, y, coverage=0.95)
    with pytest.raises(UnknownName, match=r"set method out of lac, aps, raps. Got 'rap'"):
        fit_sets(p, y, method="rap")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="set method"):
        ConformalSets.from_dict({"method": "top", "coverage": 0.9, "threshold": 0.5, "examples": 9})
    with pytest.raises(InvalidInput, match=r"coverage above 0 and below 1. Got 0"):
        ConformalSets("lac", 0.0, 0.5, 9)
    with pytest.raises(InvalidInput, match="a generator for the random draws of aps"):
        fit_sets(p, y, method="aps")
    with pytest.raises(InvalidInput, match="no random numbers for lac"):
        fit_sets(p, y)(p, torch.rand(9))
    with pytest.raises(InvalidInput, match=r"penalty and free ranks of 0 or more. Got -1 and 1"):
        fit_sets(p, y, method="raps", generator=generator_at(0, "u"), penalty=-1)
    with pytest.raises(InvalidInput, match=r"labels in 0\.\.4. Got 5\.\.5"):
        fit_sets(p, torch.full_like(y, 5))
    with pytest.raises(InvalidInput, match="sum of 2"):
        fit_sets(2 * p, y)
