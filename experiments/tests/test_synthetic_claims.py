"""Claims on synthetic problems and learning rates: verdicts on runs made by hand, and single runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from polyarch_experiments.results import Claim
from polyarch_experiments.training_speed import evidence_bound, fourier_degree, fourier_search, learning_rate
from polyarch_experiments.training_speed.learning_rate import NETWORKS

DIGITS = learning_rate.LEARNING_RATE.presets["quick"]


def verdicts(claims: list[Claim]) -> list[bool | None]:
    return [claim.supported for claim in claims]


def bounds(*, gap: float = 2.0, tight: float = 0.5, off: float = 1.0, best: str = "3") -> dict[str, Any]:
    """A run whose log evidence is -100 at the best degree and lower at the other."""
    found = {}
    for degree in ("0", "3"):
        evidence = -100.0 if degree == "3" else -120.0
        bound = evidence - gap - (0 if degree == best else 30)
        found[degree] = {
            "evidence": evidence, "bound": bound, "sampled": bound + off, "standard_error": 1.0,
            "multi_sample": {"1": bound, "100": evidence - tight},
        }  # fmt: skip
    return {"degrees": found}


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (bounds(gap=-1), [False, True, False, True, True]),
        (bounds(off=5), [True, False, False, True, True]),
        (bounds(tight=2), [True, True, False, False, True]),
        (bounds(best="0"), [True, True, False, True, False]),
    ],
)
def test_verdicts_on_the_bound(run: dict[str, Any], expected: list[bool]) -> None:
    settings = {"degrees": [0, 3], "degree": 3, "groups": [1, 100], "seeds": 1}
    assert verdicts(evidence_bound.judge(settings, {"seed 0": run, "seed 1": run})) == expected


def test_a_bound_that_is_close() -> None:
    settings = {"degrees": [0, 3], "degree": 3, "groups": [1, 100], "seeds": 1}
    run = bounds(gap=9)
    run["degrees"]["0"]["bound"] = run["degrees"]["0"]["sampled"] = -129.0
    assert verdicts(evidence_bound.judge(settings, {"seed 0": run, "seed 1": run})) == [True] * 5
    run["degrees"]["0"]["bound"] = run["degrees"]["0"]["sampled"] = -133.0
    assert verdicts(evidence_bound.judge(settings, {"seed 0": run, "seed 1": run}))[2] is False


FOURIER = {
    "degree": 3, "max_degree": 4, "seeds": 2, "starts": [-1, 6], "unroll": 25, "unrollings": [2, 10], "steps": 100,
    "long_steps": 200, "rate": 0.01, "decay": 0.4, "weight_decay": 0.04,
}  # fmt: skip


def searches(**changes: Any) -> dict[str, Any]:
    """Runs of two seeds in which every claim holds, but for the changes."""
    reached = {
        "T 2": 60, "T 10": 40, "validation": None, "even T 2": 50, "even T 10": 40, "even validation": 70, **changes,
    }  # fmt: skip
    runs: dict[str, Any] = {name: {"final": 3.0, "reached": value} for name, value in reached.items()}
    for start in (-1, 6):
        runs[f"start {start}"] = {
            "half": changes.get(f"half from {start}", 3.38), "final": changes.get(f"from {start}", 3.33), "reached": 1,
        }  # fmt: skip
    runs["sweep"] = {"sotl": {str(degree): 10.0 + abs(degree - changes.get("lowest", 3)) for degree in range(5)}}
    return {f"{name} seed {seed}": run for name, run in runs.items() for seed in range(2)}


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, ()),
        ({"lowest": 4}, (0,)),
        ({"from 6": 3.6}, (1, 3)),
        ({"half from 6": 3.6}, (1, 3)),
        ({"from -1": 2.99, "half from -1": 2.99}, (2, 3)),
        ({"half from -1": 3.45}, (3,)),
        ({"from -1": 3.49, "half from -1": 3.49}, (3,)),
        ({"T 10": 61}, (4,)),
        ({"validation": 59}, (5,)),
        ({"even validation": 49}, (6,)),
        ({"even T 10": 51}, (7,)),
    ],
)
def test_verdicts_on_the_degree(changes: dict[str, Any], failing: tuple[int, ...]) -> None:
    """The fixed point of these settings is 3.36."""
    found = verdicts(fourier_degree.judge(FOURIER, searches(**changes)))
    assert found == [position not in failing for position in range(8)]


def test_the_gate_lets_features_up_to_the_degree_through() -> None:
    features, weights = torch.eye(6), {"w": torch.ones(6)}
    settings = {"max_degree": torch.tensor(2.0)}
    losses = [fourier_search.gated_loss(weights, settings, (row[None], torch.ones(1))).item() for row in features]
    gates = 1 - torch.tensor(losses).sqrt()
    assert gates.tolist() == pytest.approx([0.982, 0.881, 0.5, 0.119, 0.018, 0.002], abs=1e-3)


def test_a_search_knows_when_it_reached_the_degree(tmp_path: Path) -> None:
    settings = {**fourier_degree.FOURIER_DEGREE.presets["quick"], "outer_rate": 0.5, "decay": 0.0, "weight_decay": 0.0}
    item = {"seed": 0, "start": -1, "unroll": 10, "steps": 200}
    found = fourier_degree.run(settings, item, tmp_path)
    assert found["curve"][0][0] == 10 and found["curve"][-1] == [200, pytest.approx(found["final"], abs=1e-4)]
    before = [value for steps, value in found["curve"] if steps < found["reached"]]
    assert max(before) < 2.5 <= dict(map(tuple, found["curve"]))[found["reached"]]
    slow = fourier_degree.run({**settings, "outer_rate": 1e-6}, item, tmp_path)
    assert slow["reached"] is None and slow["final"] == pytest.approx(-1, abs=0.01)


def test_verdicts_on_learning_rates() -> None:
    def judged(*accuracies: float) -> list[bool | None]:
        names = ("T 2", "T 10", "constant 0.1")
        runs = {
            f"digits {n} seed {seed}": {"epochs": [{"test": a}]}
            for n, a in zip(names, accuracies, strict=True)
            for seed in range(2)
        }
        return verdicts(learning_rate.judge({**DIGITS, "seeds": 2}, runs))

    assert judged(0.90, 0.95, 0.951) == [True, True]
    assert judged(0.95, 0.94, 0.95) == [False, False]


def test_a_rate_that_is_tuned_and_one_that_is_constant(tmp_path: Path) -> None:
    settings = {**DIGITS, "problems": {"digits": {**DIGITS["problems"]["digits"], "epochs": 2}}}
    item = {"problem": "digits", "seed": 0}
    tuned = learning_rate.run(settings, {**item, "unroll": 13, "start": 0.001}, tmp_path)
    constant = learning_rate.run(settings, {**item, "unroll": 1, "start": 0.05}, tmp_path)
    assert [one["epoch"] for one in constant["epochs"]] == [1, 2]
    assert [one["epoch"] for one in tuned["epochs"]] == [26 / 20, 2]  # the ends of blocks: 1000 images are 20 batches
    assert [one["rate"] for one in constant["epochs"]] == pytest.approx([0.05, 0.05])
    assert tuned["epochs"][-1]["rate"] > 0.01 and not tuned["diverged"]


def test_a_run_that_diverges_ends_with_chance(tmp_path: Path) -> None:
    found = learning_rate.run(DIGITS, {"problem": "digits", "seed": 0, "unroll": 2, "start": 1e30}, tmp_path)
    assert found["diverged"] and found["epochs"][-1]["test"] == 0.1


def test_vgg_has_its_sixteen_layers() -> None:
    net = NETWORKS["vgg"]((3, 32, 32), 10, 2)
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert sum(weight.dim() > 1 for weight in net.parameters()) == 16
