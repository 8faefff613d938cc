"""Networks drawn from the learned posterior against random and plain ones, in other families (tables 3, 8 and 9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polyarch_experiments.experiment import Settings
from polyarch_experiments.figures import Spec, side_by_side
from polyarch_experiments.posterior_guided.gated_networks import FAMILIES, IMAGENET, SMALL, TINY
from polyarch_experiments.posterior_guided.guided_draws import GUIDED_DRAWS
from polyarch_experiments.posterior_guided.guided_draws_claims import error_bars


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Errors side by side."""
    return {"family_errors": side_by_side(*(error_bars(settings, runs, data) for data in settings["data"]))}


OTHERS = {"R": 2, "D": 2, "E": 1}
"""Families, and how many seeds of each two cores have the time for."""

_CPU: Settings = {
    **SMALL, "data": ["fashion_mnist", "cifar10"], "seeds": OTHERS, "candidates": 16,
    "best_of": [1, 2, 4, 8, 16], "members": 10, "outside": {"fashion_mnist": ["mnist"], "cifar10": ["fashion_mnist"]},
}  # fmt: skip

GUIDED_FAMILIES = replace(
    GUIDED_DRAWS,
    name="guided_families",
    claim="The comparison of guided_draws for other networks: "
    f"{'; '.join(f'{name}: {FAMILIES[name]}' for name in OTHERS)}. "
    "The paper has R and D on ImageNet only, and all of them larger.",
    presets={
        "quick": {
            **_CPU, **TINY, "data": ["digits"], "seeds": {"R": 1, "D": 1}, "best_of": [1, 3], "members": 2,
            "outside": {"digits": []},
        },
        "cpu": _CPU,
        "paper": {
            **_CPU, **IMAGENET, "data": ["imagenet"], "seeds": {"R": 1, "D": 1}, "best_of": [50, 500, 1500],
            "outside": {"imagenet": []},
        },
    },
    figures=figures,
)  # fmt: skip
