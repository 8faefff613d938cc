"""Noisy spirals and few points, where there is something to overfit: learned against fixed depths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyarch_experiments.depth.spiral_depth import FIXED_DEPTHS, LEARNED, against_fixed, chosen_fixed
from polyarch_experiments.depth.spiral_depth import items as depths_of
from polyarch_experiments.depth.spiral_depth import run as run_depth
from polyarch_experiments.depth.spirals import QUICK, SPIRALS, values, weighted
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Spec, grouped_bars, summary
from polyarch_experiments.papers import VARIATIONAL_DEPTH
from polyarch_experiments.results import Claim

Item = tuple[Settings, int | None]


def variants(settings: Settings) -> dict[str, Settings]:
    """The spirals by name: every one changes the noise and the number of points."""
    return {
        f"noise {noise}, {points} points": {**settings, "noise": noise, "train": points}
        for noise, points in settings["spirals"]
    }


def items(settings: Settings) -> dict[str, Item]:
    """The learned depth and every fixed depth on all of them."""
    return {
        f"{name}: {item}": (variant, depth)
        for name, variant in variants(settings).items()
        for item, depth in depths_of(settings).items()
    }


def run(settings: Settings, item: Item, folder: Path) -> dict[str, Any]:
    """Networks of one kind on one kind of spirals, one per seed."""
    return run_depth(*item, folder)


def of_variant(runs: dict[str, Any], name: str) -> dict[str, Any]:
    """The runs on one kind of spirals, by the names that `spiral_depth` gives them."""
    return {key.removeprefix(f"{name}: "): found for key, found in runs.items() if key.startswith(f"{name}: ")}


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """The same comparisons on every kind of spirals."""
    return [
        one
        for name, variant in variants(settings).items()
        for one in against_fixed(variant, of_variant(runs, name), f" ({name})")
    ]


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Test mean log p of all sides on every kind of spirals."""
    rows = []
    for name, variant in variants(settings).items():
        found = of_variant(runs, name)
        fixed = [seed["test"]["mean_log_p"] for seed in chosen_fixed(variant, found)]
        deepest = values(found[f"depth {max(settings['fixed_depths'])}"], "test")
        sides = {
            "learned depth, weights by validation": values(found[LEARNED], "pruned"),
            "learned depth, learned q": weighted(found[LEARNED], "learned"),
            "fixed depth, chosen on validation data": fixed,
            "deepest fixed depth": deepest,
        }
        rows += [{"x": name, "series": series, **summary(side)} for series, side in sides.items()]
    return {"noise": grouped_bars(rows, "", "test mean log p", series="")}


_SPIRALS = [[0.5, 200], [1.0, 200], [0.5, 100], [0.5, 50]]
SPIRAL_NOISE = Experiment(
    name="spiral_noise",
    document=VARIATIONAL_DEPTH,
    claim="A learned, pruned depth beats fixed depths where there is something to overfit.",
    presets={
        "quick": {**QUICK, "fixed_depths": [1, 5], "spirals": [[0.5, 50]]},
        "cpu": {**SPIRALS, "fixed_depths": [1, 2, 3, 5, 8, 12, 20], "spirals": _SPIRALS},
        "long": {
            **SPIRALS, "max_depth": 50, "epochs": 8000, "fixed_depths": FIXED_DEPTHS,
            "spirals": [*_SPIRALS, [1.0, 100], [1.0, 50]],
        },
        "paper": {
            **SPIRALS, "max_depth": 50, "epochs": 8000, "fixed_depths": list(range(1, 51)),
            "spirals": [*_SPIRALS, [1.0, 100], [1.0, 50]],
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)  # fmt: skip
