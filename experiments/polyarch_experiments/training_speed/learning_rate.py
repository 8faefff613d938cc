"""Learning rates tuned while training, by the gradient of SoTL through T steps (section 4.1.1)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from polyarch.data import Batches, Normalisation, endless, load, resident, stratified_split
from polyarch.errors import NotFiniteError
from polyarch.methods.differentiable.tuning import Tuner
from polyarch.objectives import InnerSGD, Tensors, module_loss
from polyarch.randomness import derive_seed, global_seed
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.figures import Row, Spec, lines, side_by_side, summary
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import DIFFERENTIABLE_SEARCH
from polyarch_experiments.results import Claim
from polyarch_experiments.verdict import claim, finding, paired

EVALUATION_BATCH = 1000
ACCURACY_SHOWN = 10.0
"""Points below the best accuracy that the figure shows."""
AS_GOOD = 0.2
"""Points of accuracy that count as none."""
VGG16 = ((1, 1), (2, 2), (4, 4, 4), (8, 8, 8), (8, 8, 8))
"""Channels of the convolutions between poolings, in units of the width."""


def items(settings: Settings) -> dict[str, dict[str, Any]]:
    """Every problem with every T, and with constant rates, for every seed."""
    found: dict[str, dict[str, Any]] = {}
    for problem, its in settings["problems"].items():
        for seed in range(settings["seeds"]):
            one = {"problem": problem, "seed": seed}
            for unroll in its["unrollings"]:
                found[f"{problem} T {unroll} seed {seed}"] = {**one, "unroll": unroll, "start": settings["start"]}
            for rate in its[
                "constants"
            ]:  # the first loss of a block does not depend on the rate: T = 1 changes nothing
                found[f"{problem} constant {rate} seed {seed}"] = {**one, "unroll": 1, "start": rate}
    return found


def run(settings: Settings, item: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Trains once; rate and test accuracy after every epoch. Training whose loss is not finite ends there."""
    its, seed = settings["problems"][item["problem"]], item["seed"]
    data = load(its["data"])
    train = resident(data.train)
    if its["train"] < len(train):
        train = stratified_split(train, its["train"] / len(train), seed=seed)[1]
    normalisation = Normalisation.of(train)
    source = Batches(train, its["batch_size"], seed=derive_seed(seed, "batches"), preprocessing=normalisation)
    test = Batches(resident(data.test), EVALUATION_BATCH, shuffle=False, preprocessing=normalisation)
    with global_seed(seed, "network"):
        network = NETWORKS[its["network"]](data.input_shape, data.classes, its["width"])
    tuner = Tuner(
        module_loss(network, F.cross_entropy),
        dict(network.named_parameters()),
        {"rate": item["start"]},
        InnerSGD("rate"),
        outer=partial(torch.optim.SGD, lr=settings["outer_rate"]),
        clip=settings["clip"],
        positive=["rate"],
        repeat=item["unroll"] > 1,  # a constant rate would give the same steps again
    )
    stream, steps, done = endless(source), its["epochs"] * len(source), 0
    epochs: list[dict[str, float]] = []
    try:
        while done < steps:
            block = tuner.block(list(islice(stream, min(item["unroll"], steps - done))))
            done += len(block.losses)
            if done // len(source) > len(epochs) or done == steps:
                rate = tuner.settings["rate"].item()
                epochs.append(
                    {"epoch": done / len(source), "rate": rate, "test": _accuracy(network, tuner.weights, test)}
                )
    except NotFiniteError:
        epochs.append({"epoch": done / len(source), "rate": tuner.settings["rate"].item(), "test": 1 / data.classes})
    return {"epochs": epochs, "diverged": done < steps}


def _mlp(shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width), nn.ReLU(), nn.Linear(width, classes))


def _vgg(shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
    """VGG-16 for images of 32 x 32, without the dropout: a loss has to be the same whenever it is computed."""
    layers: list[nn.Module] = []
    channels = shape[0]
    for group in VGG16:
        for units in group:
            layers += [nn.Conv2d(channels, units * width, 3, padding=1), nn.ReLU()]
            channels = units * width
        layers.append(nn.MaxPool2d(2))
    hidden = 64 * width
    layers += [nn.Flatten(), nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()]
    layers.append(nn.Linear(hidden, classes))
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.get_parameter("bias"))
    return nn.Sequential(*layers)


NETWORKS: dict[str, Callable[[tuple[int, ...], int, int], nn.Module]] = {"mlp": _mlp, "vgg": _vgg}


@torch.no_grad()
def _accuracy(network: nn.Module, weights: Tensors, test: Batches) -> float:
    right = 0
    for inputs, targets in test.epoch(0):
        outputs: Tensor = functional_call(network, dict(weights), (inputs,))
        right += int((outputs.argmax(1) == targets).sum())
    return right / test.num_examples


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Test accuracy at the end by T, for every problem, beside constant rates."""
    claims = []
    for problem, its in settings["problems"].items():
        tuned = {unroll: _final(settings, runs, f"{problem} T {unroll}") for unroll in its["unrollings"]}
        constant = {rate: _final(settings, runs, f"{problem} constant {rate}") for rate in its["constants"]}
        best = max(constant, key=lambda rate: statistics.fmean(constant[rate]))
        numbers = "; ".join(f"T {unroll}: {spread(found, 2)} %" for unroll, found in tuned.items())
        claims += [
            claim(
                f"Larger T tunes the learning rate better: test accuracy rises with T ({problem}).",
                [
                    finding(f"points from T {one} to {other}", paired(tuned[other], tuned[one]), above=0)
                    for one, other in pairwise(tuned)
                ],
                f"after {its['epochs']} epochs, from a rate of {settings['start']}: {numbers}",
                number=18,
                document=FIGURES[its["network"]],
            ),
            claim(
                f"The largest T is as good as the best constant rate ({problem}).",
                [
                    finding(
                        f"points over constant {best}",
                        paired(tuned[its["unrollings"][-1]], constant[best]),
                        above=-AS_GOOD,
                    )
                ],
                "; ".join(f"constant {rate}: {spread(found, 2)} %" for rate, found in constant.items()),
                ours=f"within {AS_GOOD} points of the rate that is best on test data, which favours constant rates",
            ),
        ]
    return claims


FIGURES = {
    "mlp": "figure 4.1a, 1000 units, 60,000 images: T = 150 or 250 reach 98.3 % in 20 epochs, T = 2 96.4 % after 50",
    "vgg": "figure 4.1b: T = 10 is better than T = 2 on CIFAR-10",
}


def _final(settings: Settings, runs: dict[str, Any], name: str) -> list[float]:
    return [100 * runs[f"{name} seed {seed}"]["epochs"][-1]["test"] for seed in range(settings["seeds"])]


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Accuracy and tuned rate over the epochs (figure 4.1)."""
    found = {}
    for problem, its in settings["problems"].items():
        rows: dict[str, list[Row]] = {"test": [], "rate": []}
        for name in (f"T {unroll}" for unroll in its["unrollings"]):
            seeds = [runs[f"{problem} {name} seed {seed}"]["epochs"] for seed in range(settings["seeds"])]
            for points in zip(*seeds, strict=False):  # one that diverged is shorter
                for kind, factor in (("test", 100), ("rate", 1)):
                    values = summary([factor * point[kind] for point in points])
                    rows[kind].append({"x": points[0]["epoch"], "series": name, **values})
        highest = {kind: max(row["high"] for row in kept) for kind, kept in rows.items()}
        accuracies, rates = (highest["test"] - ACCURACY_SHOWN, highest["test"]), (0.0, highest["rate"])
        found[f"learning_rate_{problem}"] = side_by_side(
            lines(rows["test"], "epoch", "test accuracy, %", domain=accuracies, title=f"{problem}: accuracy"),
            lines(rows["rate"], "epoch", "rate", domain=rates, title=f"{problem}: learning rate"),
        )
    return found


_MNIST: dict[str, Any] = {
    "data": "mnist", "network": "mlp", "width": 200, "train": 20_000, "batch_size": 100, "epochs": 15,
    "unrollings": [2, 10, 50, 100], "constants": [0.001, 0.01, 0.1],
}  # fmt: skip
_CPU: Settings = {"problems": {"mnist": _MNIST}, "start": 1e-3, "outer_rate": 1e-2, "clip": 10.0, "seeds": 3}

LEARNING_RATE = Experiment(
    name="learning_rate",
    document=DIFFERENTIABLE_SEARCH,
    claim="Learning rates tuned by SoTL through T steps; at cpu size 200 hidden units and 20,000 images (figure 4.1).",
    presets={
        "quick": {
            **_CPU,
            "problems": {
                "digits": {
                    **_MNIST, "data": "digits", "width": 32, "train": 1000, "batch_size": 50, "epochs": 3,
                    "unrollings": [2, 10], "constants": [0.1],
                }
            },
            "seeds": 1,
        },
        "cpu": _CPU,
        "paper": {
            **_CPU,
            "problems": {
                "mnist": {
                    **_MNIST, "width": 1000, "train": 60_000, "epochs": 50, "unrollings": [2, 10, 50, 100, 150, 250],
                },
                "cifar10": {
                    **_MNIST, "data": "cifar10", "network": "vgg", "width": 64, "train": 50_000, "epochs": 50,
                    "unrollings": [2, 10],
                },
            },
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)  # fmt: skip
