"""Weights of the mixture of depths: stacking against a grid, cross-validation by hand, and the choice."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from polyarch.distributions import Categorical
from polyarch.methods.depth.weighting import (
    FOLDS,
    WeightedMixture,
    Weighting,
    cross_validated_loss,
    preferred,
    weighted_mixtures,
)
from polyarch.predictive import stacked_weights
from polyarch.randomness import generator_at
from polyarch.runs.judging import MemberOutputs
from polyarch.supernets.depth import depth_space
from polyarch.tasks import Classification, MultiLabel, Regression, Task

EXAMPLES = 60


def of_task(name: str, depths: int) -> MemberOutputs:
    """Depths whose outputs fit different examples."""
    generator = generator_at(depths, name)
    tasks: dict[str, Task] = {
        "classes": Classification(("a", "b", "c")),
        "numbers": Regression(("a",)),
        "labels": MultiLabel(("a", "b")),
    }
    task = tasks[name]
    outputs = torch.randn(depths, 2 * EXAMPLES, task.outputs, generator=generator, dtype=torch.float64)
    targets: Tensor = {
        "classes": torch.randint(3, (2 * EXAMPLES,), generator=generator),
        "numbers": torch.randn(2 * EXAMPLES, 1, generator=generator, dtype=torch.float64),
        "labels": torch.randint(2, (2 * EXAMPLES, 2), generator=generator).double(),
    }[name]
    valid, test = slice(EXAMPLES), slice(EXAMPLES, None)
    return MemberOutputs(task, outputs[:, valid], targets[valid], outputs[:, test], targets[test])


def loss(members: MemberOutputs, weights: Tensor) -> float:
    """-(1/N) sum_n log sum_d w_d p(y_n | x_n, d), term by term."""
    likelihoods = members.task.log_likelihood(members.valid[: len(weights)], members.valid_targets).exp()
    return -float((weights @ likelihoods).log().mean())


def posteriors(depths: int) -> dict[str, tuple[Categorical, int]]:
    space = depth_space(depths - 1)
    learned = Categorical(space, torch.arange(depths).double(), learnable=False)
    exact = Categorical(space, -2000 * torch.arange(depths).double(), learnable=False)
    return {"learned": (learned, 1), "exact": (exact, depths - 1)}


@pytest.mark.parametrize("task", ["classes", "numbers", "labels"])
@pytest.mark.parametrize("depths", [2, 3])
def test_stacked_weights_are_the_best_of_a_grid(task: str, depths: int) -> None:
    members = of_task(task, depths)
    found = weighted_mixtures(members, posteriors(depths), depths - 1)
    steps = 50
    grid = [
        torch.tensor([*point, steps - sum(point)], dtype=torch.float64) / steps
        for point in itertools.product(range(steps + 1), repeat=depths - 1)
        if sum(point) <= steps
    ]
    best = min(grid, key=lambda weights: loss(members, weights))
    stacked = found["stacked"].weights
    assert loss(members, stacked) <= loss(members, best) + 1e-6
    assert torch.allclose(torch.nn.functional.pad(stacked, (0, depths - len(stacked))), best, atol=1.5 / steps)
    for one in found.values():
        assert float(one.weights.sum()) == pytest.approx(1, abs=1e-12) and float(one.weights.min()) > 0


@pytest.mark.parametrize("task", ["classes", "numbers", "labels"])
def test_posteriors_are_pruned_and_measured_on_validation_examples(task: str) -> None:
    """Also one whose probabilities round to 0."""
    members = of_task(task, 3)
    found = weighted_mixtures(members, posteriors(3), 2)
    total = sum(math.exp(depth) for depth in range(3))
    assert found["learned"].weights.tolist() == pytest.approx([1 / total, 1 - 1 / total], rel=1e-6)
    assert found["exact"].weights.tolist() == pytest.approx([1, 0, 0], abs=1e-30)
    for name in ("learned", "exact"):
        assert found[name].valid_loss == pytest.approx(loss(members, found[name].weights), rel=1e-9)


def test_stacked_weights_are_judged_by_examples_that_they_have_not_seen() -> None:
    """On noise alone, fitted weights look better on what they were fitted to than they are."""
    members = of_task("classes", 3)
    log_p = members.task.log_likelihood(members.valid, members.valid_targets)  # (K, N)
    total = 0.0
    for fold in range(FOLDS):
        held = [row for row in range(EXAMPLES) if row % FOLDS == fold]
        rest = [row for row in range(EXAMPLES) if row % FOLDS != fold]
        weights = stacked_weights(members.valid[:, rest], members.valid_targets[rest])
        total -= float((weights @ log_p[:, held].exp()).log().sum())
    assert cross_validated_loss(members) == pytest.approx(total / EXAMPLES, rel=2e-3)  # weights below 1e-3 are cut
    assert cross_validated_loss(members) > loss(members, weighted_mixtures(members, {}, 2)["stacked"].weights)


def test_one_validation_example_is_predicted_with_equal_weights() -> None:
    members = of_task("classes", 2)
    one = MemberOutputs(members.task, members.valid[:, :1], members.valid_targets[:1], members.test, members.targets)
    assert cross_validated_loss(one) == pytest.approx(loss(one, torch.full((2,), 0.5).double()))


def test_a_single_depth_needs_no_weights() -> None:
    members = of_task("classes", 1)
    assert cross_validated_loss(members) == pytest.approx(loss(members, torch.ones(1).double()))


def test_depths_without_stacked_weight_are_not_computed() -> None:
    """The last depths never predict the targets."""
    members = of_task("classes", 4)
    outputs = members.valid.clone()
    outputs[2:] = -1e3 * torch.nn.functional.one_hot(members.valid_targets, 3)
    bad = MemberOutputs(members.task, outputs, members.valid_targets, members.test, members.targets)
    assert len(weighted_mixtures(bad, {}, 3)["stacked"].weights) == 2
    assert len(weighted_mixtures(members, {}, 1)["stacked"].weights) <= 2  # limits


@pytest.mark.parametrize(
    ("losses", "asked", "name"),
    [
        ([0.3, 0.2, 0.25], "best", "exact"),
        ([0.3, 0.2, 0.1], "best", "stacked"),
        ([0.2, 0.2, 0.2], "best", "learned"),  # the first of equals
        ([0.3, 0.2, 0.1], "learned", "learned"),
        ([0.1, 0.2, 0.3], "stacked", "stacked"),
    ],
)
def test_validation_examples_choose_unless_the_settings_do(losses: list[float], asked: Weighting, name: str) -> None:
    names = ("learned", "exact", "stacked")
    mixtures = {one: WeightedMixture(torch.ones(1), value) for one, value in zip(names, losses, strict=True)}
    assert preferred(mixtures, asked) == name
