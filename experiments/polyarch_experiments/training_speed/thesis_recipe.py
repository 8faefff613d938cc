"""The settings of the thesis for supernets of NAS-Bench-201 (table B.1, section 4.2), which `paper` presets share."""

from __future__ import annotations

from typing import Any

from polyarch_experiments.ranked_supernets import recipe

SINGLE_PATH_RATE = 0.01
OTHER_RATE = 0.001
"""Of short runs after training by single paths and by other strategies, whose supernets are trained better: a high rate
would make them forget (section 4.2)."""


def thesis_recipe(*, rate: float, cells: int = 5) -> dict[str, Any]:
    """The settings of a run on CIFAR-10: 100 epochs of SGD from 0.025 to 0.001, and short runs of 100 steps.

    Args:
        rate: of the short run.
        cells: per stage; 5 in the networks of the benchmark.
    """
    train: dict[str, Any] = {
        "epochs": 100, "batch_size": 64, "learning_rate": 0.025, "final_learning_rate": 0.001, "momentum": 0.9,
        "weight_decay": 5e-4,
    }  # fmt: skip
    return {**recipe(size=None, cells=cells, epochs=train["epochs"], steps=100, rate=rate), "train": train}
