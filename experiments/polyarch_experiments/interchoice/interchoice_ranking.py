"""Supernets with inter-choice weights: what they select, and whether seeds agree."""

from __future__ import annotations

from typing import Any

from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.interchoice.interchoice_claims import judge
from polyarch_experiments.interchoice.interchoice_figures import figures, tables
from polyarch_experiments.interchoice.weighted_supernets import PAPER_CELLS, SPACES, TABLE_5, items, run, short_recipe
from polyarch_experiments.papers import INTERCHOICE_WEIGHTS


def _macro(channels: int, head_channels: int, **recipe_options: Any) -> dict[str, Any]:
    """The same settings for NAS-Bench-Macro's chain."""
    space = {"kind": "macro", "channels": channels, "head_channels": head_channels}
    return {**short_recipe(cells=1, **recipe_options), "space": space}


_QUICK = short_recipe(size=8, cells=1, epochs=2, limit=200, adapting=2)
_CPU: Settings = {
    "spaces": {"all": 1, "no zero": 1, "only conv": 1, "macro": 2}, "architectures": 64, "valid_examples": 2000,
    "run": short_recipe(size=16, cells=1, epochs=10),
    "macro_run": _macro(16, 256, size=16, epochs=4, limit=6_000),
}  # fmt: skip

_SHORT = short_recipe(size=16, cells=1, epochs=8)
_LONG: Settings = {
    "spaces": dict.fromkeys(("all", "no zero", "only conv"), 3), "architectures": 128, "valid_examples": 2500,
    "run": {
        "data": {"name": "cifar10", "validation": 0.1, "size": 16},
        "space": {**PAPER_CELLS["space"], "cells": 1},
        "train": {**_SHORT["train"], "weight_decay": 3e-4, "final_learning_rate": 1e-5},
        "scores": _SHORT["scores"],
    },
}  # fmt: skip
"""The settings of the paper but for what takes too long: smaller images, one cell, fewer epochs with a higher learning
rate."""

INTERCHOICE_RANKING = Experiment(
    name="interchoice_ranking",
    document=INTERCHOICE_WEIGHTS,
    claim="Inter-choice weights in the three NAS-Bench-201 spaces and on NAS-Bench-Macro's chain.",
    presets={
        "quick": {
            **_CPU, "spaces": {"all": 1}, "architectures": 5, "valid_examples": 100,
            "run": _QUICK, "macro_run": _macro(8, 16, size=8, epochs=2, limit=100, adapting=2),
        },
        "cpu": _CPU,
        "long": _LONG,
        "paper": {
            "spaces": dict.fromkeys(SPACES, 3), "architectures": 1000, "valid_examples": 5000,
            "weights": {
                "base": {},
                "bias": {"kind": "bias"},
                **{f"bias D={previous}": {"kind": "bias", "previous": previous} for previous in (2, 3)},
                **{f"split at {epoch}": {"kind": "split", "split_epoch": epoch} for epoch in (125, 175, 200)},
            },
            "run": PAPER_CELLS,
            "macro_run": {**TABLE_5, "space": {"kind": "macro", "channels": 32, "head_channels": 1280}},
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
    partial=True,
)  # fmt: skip
