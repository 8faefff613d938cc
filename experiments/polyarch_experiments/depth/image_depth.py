"""Images: learned depths, pruning rules, calibration and speed of the convolutional network (figures 4, 9, 10, 11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyarch_experiments.depth.image_claims import figures, judge
from polyarch_experiments.depth.image_networks import IMAGES, LONG, PAPER, QUICK, ImageProblem
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.papers import VARIATIONAL_DEPTH


def items(settings: Settings) -> dict[str, tuple[str, int]]:
    """Every data set with every seed."""
    return {f"{name} seed {seed}": (name, seed) for name in settings["data"] for seed in range(settings["seeds"])}


def run(settings: Settings, item: tuple[str, int], folder: Path) -> dict[str, Any]:
    """Learns a depth; networks of the chosen depth and of full depth are trained from scratch beside it."""
    name, seed = item
    one = ImageProblem.of(settings, name, seed)
    store = folder / "checkpoints" / f"{name}-{seed}"
    found = one.learned(settings["max_depth"], store / "learned")
    for kind, depth in (("fixed", max(found["depths"]["95%"], 1)), ("full", settings["max_depth"])):
        measured, epochs = one.fixed(depth, store / kind)
        found["test"][f"{kind} depth"], found["epochs"][kind] = measured, epochs
    return found


IMAGE_DEPTH = Experiment(
    name="image_depth",
    document=VARIATIONAL_DEPTH,
    claim="Depth, pruning, calibration and speed on images (figures 4, 9, 10, 11); cpu has CIFAR-10 in place of SVHN.",
    presets={
        "quick": {**QUICK, "max_depth": 3},
        "cpu": {**IMAGES, "max_depth": 20},
        "long": {**LONG, "max_depth": 20},
        "paper": {**PAPER, "max_depth": 50},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)
