"""Spirals: does a learned depth beat every fixed depth, and does pruning keep the predictions? (figure 2, left)"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polyarch.data import Batches, Normalisation, TensorData, spirals
from polyarch.experiments.experiment import Experiment, Settings, spread
from polyarch.methods.variational_depth import DepthSearch, choose_depth, prune
from polyarch.objectives import mixture_log_probabilities
from polyarch.randomness import global_seed
from polyarch.results import Claim
from polyarch.strategies import Supervised
from polyarch.supernets import FullyConnectedDepth
from polyarch.training import EarlyStopping, fit

Item = tuple[int, int | None]
"""A seed, and a fixed depth or ``None`` for the learned one."""


def items(settings: Settings) -> dict[str, Item]:
    """The learned depth and every fixed depth, for every seed."""
    found: dict[str, Item] = {}
    for seed in range(settings["seeds"]):
        found[f"learned seed {seed}"] = (seed, None)
        found.update({f"depth {depth} seed {seed}": (seed, depth) for depth in settings["fixed_depths"]})
    return found


def run(settings: Settings, item: Item, folder: Path) -> dict[str, Any]:
    """Trains one network on the spirals of its seed and tests it."""
    seed, depth = item
    train, test = spirals(settings["train"], seed=seed), spirals(settings["test"], seed=seed, stream="test")
    normalisation = Normalisation.of(train)
    batches = Batches(train, len(train), shuffle=False, preprocessing=normalisation)
    inputs = normalisation(test.inputs)
    with global_seed(seed, "network", depth if depth is not None else "learned"):
        net = FullyConnectedDepth(
            features=2, classes=2, max_depth=depth or settings["max_depth"], width=settings["width"]
        )
    search = DepthSearch(max_iterations=settings["max_iterations"], patience=settings["patience"])
    if depth is None:
        q, history = search.fit(net, batches, seed=seed)
        net.eval()
        with torch.no_grad():
            chosen = choose_depth(q, "argmax")
            return {
                "depth": chosen,
                "depth_95": choose_depth(q, "95%"),
                "depth_expected": choose_depth(q, "expected"),
                "q": q.log_probabilities().exp().tolist(),
                "elbo": max(history["elbo"]),
                "iterations": len(history.rows),
                "unpruned": _measure(mixture_log_probabilities(net, q, inputs), test),
                "pruned": _measure(mixture_log_probabilities(net, prune(q, chosen), inputs), test),
            }
    network = net.extract(net.space.architecture([str(depth)]))
    optimizer = torch.optim.SGD(network.parameters(), lr=search.learning_rate, momentum=search.momentum)
    stopping = EarlyStopping("loss", maximise=False, patience=search.patience)
    strategy = Supervised(network, optimizer)
    history = fit(strategy, batches, epochs=search.max_iterations, seed=seed, callbacks=[stopping])
    network.eval()
    with torch.no_grad():
        measured = _measure(torch.log_softmax(network(inputs), -1), test)
    return {"depth": depth, "iterations": len(history.rows), "test": measured}


def _measure(log_probs: Tensor, test: TensorData) -> dict[str, float]:
    """Mean log p and mean p of the true class (the document's plots mix the two up), and accuracy."""
    true = log_probs.gather(1, test.targets[:, None]).squeeze(1)
    return {
        "mean_log_p": float(true.mean()),
        "mean_p": float(true.exp().mean()),
        "accuracy": float((log_probs.argmax(1) == test.targets).float().mean()),
    }


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Means over seeds; a claim about an ordering is supported when the ordering of the means holds."""
    seeds = range(settings["seeds"])
    learned = [runs[f"learned seed {seed}"] for seed in seeds]
    pruned = [run["pruned"]["mean_log_p"] for run in learned]
    unpruned = [run["unpruned"]["mean_log_p"] for run in learned]
    fixed = {
        depth: [runs[f"depth {depth} seed {seed}"]["test"]["mean_log_p"] for seed in seeds]
        for depth in settings["fixed_depths"]
    }
    best_depth = max(fixed, key=lambda depth: statistics.fmean(fixed[depth]))
    accuracy = [run["pruned"]["accuracy"] for run in learned]
    unpruned_accuracy = [run["unpruned"]["accuracy"] for run in learned]
    depths = [run["depth"] for run in learned]
    shown = "; ".join(f"depth {depth}: {spread(values, 3)}" for depth, values in fixed.items())
    return [
        Claim(
            text="The pruned learned-depth network has a higher test log-likelihood than fixed depths of every size.",
            supported=statistics.fmean(pruned) > statistics.fmean(fixed[best_depth]),
            numbers=f"pruned: {spread(pruned, 3)}, chosen depths {depths}; {shown}",
        ),
        Claim(
            text="Pruning keeps accuracy (within 0.5 points) and log-likelihood (within 0.02 nats) of the mixture.",
            supported=abs(statistics.fmean(accuracy) - statistics.fmean(unpruned_accuracy)) <= 0.005
            and abs(statistics.fmean(pruned) - statistics.fmean(unpruned)) <= 0.02,
            numbers=f"accuracy {spread(accuracy, 3)} pruned, {spread(unpruned_accuracy, 3)} full; "
            f"log p {spread(pruned, 3)} pruned, {spread(unpruned, 3)} full",
        ),
    ]


SPIRAL_DEPTH = Experiment(
    name="spiral_depth",
    document="variational depth",
    claim="A learned, pruned depth beats networks of every fixed depth on spirals (figure 2, left).",
    presets={
        "quick": {
            "seeds": 1, "max_depth": 5, "fixed_depths": [1, 3, 5], "width": 20, "train": 200, "test": 1800,
            "max_iterations": 300, "patience": 100,
        },
        "cpu": {
            "seeds": 6, "max_depth": 20, "fixed_depths": [1, 2, 4, 8, 12, 20], "width": 20, "train": 200,
            "test": 1800, "max_iterations": 3000, "patience": 500,
        },
        "paper": {
            "seeds": 6, "max_depth": 50, "fixed_depths": list(range(1, 51)), "width": 20, "train": 200, "test": 1800,
            "max_iterations": 100_000, "patience": 500,
        },
    },
    items=items,
    task=run,
    judge=judge,
)  # fmt: skip
