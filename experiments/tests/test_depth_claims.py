"""Verdicts on depths from made-up runs: what holds, what fails, and what stays open."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from polyarch.plugins import EXPERIMENTS
from polyarch.randomness import global_seed
from polyarch.supernets import FullyConnectedDepth
from polyarch_experiments.depth.planes import boundary_length, update_sizes
from polyarch_experiments.depth.spiral_depth import chosen_fixed, judge, probability_against_score
from polyarch_experiments.measures import with_noise
from polyarch_experiments.results import Claim

SEEDS, DEPTHS = 4, 12


def scores(log_p: float) -> dict[str, float]:
    noise = {"calibration_floor": 0.02, "calibration_low": 0.08, "calibration_high": 0.12}
    return {"mean_log_p": log_p, "mean_p": math.exp(log_p), "accuracy": 0.9, "calibration_error": 0.1, **noise}


def runs(advantage: float, *, peak: int = 5, noise: float = 0.01) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fixed depths are best at 5; q peaks at ``peak``; the mixture beats the best fixed depth by ``advantage``."""
    fixed_depths = list(range(1, DEPTHS + 1))
    jitter = [noise * math.sin(3 * seed) for seed in range(SEEDS)]
    shape = [math.exp(-abs(depth - peak)) for depth in range(DEPTHS + 1)]
    q = [value / sum(shape) for value in shape]
    fixed = {
        depth: [
            {"valid": -0.1 * abs(depth - 5) - 0.2, "test": scores(-0.1 * abs(depth - 5) - 0.2 + one)} for one in jitter
        ]
        for depth in fixed_depths
    }
    learned = []
    for seed in range(SEEDS):
        ours = scores(-0.2 + advantage + 2 * jitter[seed])
        learned.append(
            {
                "depths": {"argmax": peak}, "learned_depths": {"argmax": peak}, "q": q, "exact": q[::-1], "kl": 1.0,
                "unpruned": ours, "unpruned learned": ours, "pruned": ours, "weighting": "learned",
                "mixtures": dict.fromkeys(("learned", "exact", "stacked"), ours),
            }
        )  # fmt: skip
    settings = {"seeds": SEEDS, "max_depth": DEPTHS, "fixed_depths": fixed_depths}
    return settings, {"learned": {"seeds": learned}, **{f"depth {d}": {"seeds": fixed[d]} for d in fixed_depths}}


def test_calibration_errors_are_told_with_their_noise() -> None:
    assert with_noise([scores(-1.0), scores(-2.0)]) == "0.1000 +- 0.0000; 0.0200; 0.0800 to 0.1200"
    assert with_noise([{"calibration_error": 0.1}]) == "0.1000"  # earlier results


def verdicts(settings: dict[str, Any], found: dict[str, Any]) -> list[bool | None]:
    claims: list[Claim] = judge(settings, found)
    return [one.supported for one in claims]


def test_learned_against_fixed_depths() -> None:
    for advantage, verdict in ((0.1, True), (-0.1, False), (0.0, None)):
        settings, found = runs(advantage, noise=0.03)
        assert verdicts(settings, found)[2:4] == [verdict, verdict]
    for seed in found["learned"]["seeds"]:  # weights of the three kinds are told apart
        seed["mixtures"] = {**seed["mixtures"], "learned": scores(-0.5 + 2 * seed["pruned"]["mean_log_p"])}
    assert verdicts(settings, found)[2:4] == [False, None]
    assert [one["depth"] for one in chosen_fixed(settings, found)] == [5] * SEEDS  # by validation points


def test_a_fixed_depth_is_chosen_without_looking_at_test_points() -> None:
    settings, found = runs(0.1)
    for seed in found["depth 9"]["seeds"]:
        seed["valid"] = 0.0
    assert [one["depth"] for one in chosen_fixed(settings, found)] == [9] * SEEDS


def test_rank_correlation_of_probability_and_score() -> None:
    """q peaks where fixed depths are best, its mirror image does not."""
    settings, found = runs(0.0, peak=5)
    alike, unlike = (probability_against_score(settings, found, name) for name in ("q", "exact"))
    assert (
        alike.value is not None
        and alike.value == pytest.approx(1, abs=0.02)
        and alike.low is not None
        and alike.low > 0
    )
    assert unlike.value is not None and unlike.value < alike.value
    assert verdicts(settings, found)[0] is True


def test_the_length_of_a_boundary_by_hand() -> None:
    """A square of 2x2 in the middle of 4x4 has 8 neighbours of the other class."""
    grid = torch.zeros(4, 4)
    grid[1:3, 1:3] = 0.9
    assert boundary_length(grid.flatten()) == 8
    assert boundary_length(torch.full((16,), 0.7)) == 0


def test_the_size_of_updates_by_hand() -> None:
    """A block that adds nothing has size 0; one that doubles its positive input has size 1."""
    with global_seed(0, "net"):
        net = FullyConnectedDepth(features=2, classes=2, max_depth=2, width=2).double().eval()
    with torch.no_grad():
        for block, factor in zip(net.blocks, (1.0, 0.0), strict=True):
            assert isinstance(block, nn.Sequential) and isinstance(block[0], nn.Linear)
            block[0].weight.copy_(factor * torch.eye(2))
            block[0].bias.zero_()
            assert isinstance(block[2], nn.BatchNorm1d)
            block[2].eps = 0.0  # running averages are 0 and 1: the identity
        stem = net.stem[1]  # type: ignore[index]
        stem.weight.copy_(torch.eye(2))
        stem.bias.zero_()
    assert update_sizes(net, torch.rand(5, 2, dtype=torch.float64) + 0.1) == pytest.approx([1.0, 0.0], abs=1e-9)


@pytest.mark.parametrize("grows", [1.0, -1.0])
def test_depths_over_the_maximum_depth(grows: float) -> None:
    """Made-up images: the expected depth follows D, or falls."""
    experiment = EXPERIMENTS["image_max_depth"]
    settings = {**experiment.presets["cpu"], "seeds": 3}
    found: dict[str, Any] = {}
    for name, (_, kind, depth, seed) in experiment.items(settings).items():
        shift = 0.01 * seed
        if kind == "fixed":
            found[name] = {"test": scores(-0.3 + shift)}
            continue
        found[name] = {
            "expected": 20 + grows * depth / 2 + shift, "depths": {"95%": 5}, "share_of_forward": 5 / depth + shift,
            "test": {way: scores(-0.2 + 2 * shift) for way in ("pruned 95%", "pruned expected", "unpruned")},
        }  # fmt: skip
    claims = experiment.judge(settings, found)
    assert [one.supported for one in claims] == [grows > 0, grows > 0, True, True]
    assert len(experiment.figures(settings, found)) == 4
