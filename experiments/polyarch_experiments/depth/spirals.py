"""What the experiments on spirals share: data by seed, learned and fixed depths for all seeds at once, measures."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from polyarch.data import Batches, Normalisation, TensorData, spirals
from polyarch.distributions import Categorical
from polyarch.methods.depth.search import RULES, DepthSearch, DepthTraining, choose_depth, prune
from polyarch.objectives import marginal_log_probabilities
from polyarch.randomness import global_seed
from polyarch.supernets import FullyConnectedDepth
from polyarch.training import History
from polyarch_experiments.depth.side_by_side import search_together, train_together
from polyarch_experiments.experiment import Settings
from polyarch_experiments.measures import scores

SPIRALS: Settings = {
    "seeds": 6, "max_depth": 20, "width": 20, "train": 200, "test": 1800, "rotation": 720, "epochs": 3000,
    "patience": 500,
}  # fmt: skip
"""The paper's setting, except for the number of steps, which the paper does not limit."""
QUICK: Settings = {**SPIRALS, "seeds": 2, "max_depth": 5, "epochs": 150, "patience": 100}
"""For tests: shows that everything runs; the numbers mean nothing."""


@dataclass(frozen=True)
class Problem:
    """Training batches and normalised test examples of one seed."""

    train: Batches
    inputs: Tensor
    targets: Tensor
    normalisation: Normalisation
    examples: TensorData


def problem(settings: Settings, seed: int) -> Problem:
    """The spirals of a seed; full batches, standardised by the statistics of the training points."""
    train = spirals(settings["train"], seed=seed, rotation=settings["rotation"])
    test = spirals(settings["test"], seed=seed, stream="test", rotation=settings["rotation"])
    normalisation = Normalisation.of(train)
    batches = Batches(train, len(train), shuffle=False, preprocessing=normalisation)
    return Problem(batches, normalisation(test.inputs), test.targets, normalisation, train)


def network(settings: Settings, seed: int, max_depth: int, *name: int | str) -> FullyConnectedDepth:
    """Untrained, from the seed and a name."""
    with global_seed(seed, "network", *name):
        return FullyConnectedDepth(features=2, classes=2, max_depth=max_depth, width=settings["width"])


def learned(settings: Settings) -> list[tuple[Problem, FullyConnectedDepth, Categorical, History]]:
    """A network with learned depth for every seed, trained side by side."""
    seeds = range(settings["seeds"])
    problems = [problem(settings, seed) for seed in seeds]
    nets = [network(settings, seed, settings["max_depth"], "learned") for seed in seeds]
    search = DepthSearch(epochs=settings["epochs"], patience=settings["patience"])
    found = search_together(search, nets, [one.train for one in problems], seed=0)
    return [(one, net.eval(), q, history) for one, (net, q, history) in zip(problems, found, strict=True)]


def measure_learned(settings: Settings) -> dict[str, Any]:
    """Depths by every rule, q, the bound, and test results of the mixture, the pruned mixture and the depth alone."""
    return {"seeds": [measure(*parts) for parts in learned(settings)]}


@torch.no_grad()
def measure(one: Problem, net: FullyConnectedDepth, q: Categorical, history: History) -> dict[str, Any]:
    """What is kept of a trained network with learned depth."""
    chosen = choose_depth(q, "argmax")
    alone = torch.log_softmax(net(one.inputs, net.space.members[chosen]), -1)
    return {
        "depths": {rule: choose_depth(q, rule) for rule in RULES},
        "q": [round(value, 6) for value in q.log_probabilities().exp().tolist()],
        "elbo": max(history["elbo"]),
        "iterations": len(history.rows),
        "unpruned": scores(marginal_log_probabilities(net, q, one.inputs), one.targets),
        "pruned": scores(marginal_log_probabilities(net, prune(q, chosen), one.inputs), one.targets),
        "alone": scores(alone, one.targets),
    }


def measure_fixed(settings: Settings, depth: int) -> dict[str, Any]:
    """Networks of a fixed depth, one per seed, trained side by side."""
    seeds = range(settings["seeds"])
    problems = [problem(settings, seed) for seed in seeds]
    nets = [network(settings, seed, depth, depth) for seed in seeds]
    training = DepthTraining(epochs=settings["epochs"], patience=settings["patience"])
    found = []
    for one, (net, history) in zip(
        problems, train_together(training, nets, [one.train for one in problems], seed=0), strict=True
    ):
        with torch.no_grad():
            log_probs = torch.log_softmax(net.eval()(one.inputs, net.space.members[-1]), -1)
        found.append({"iterations": len(history.rows), "test": scores(log_probs, one.targets)})
    return {"seeds": found}


def depths(run: dict[str, Any], rule: str = "argmax") -> list[float]:
    """The chosen depths of all seeds."""
    return [float(seed["depths"][rule]) for seed in run["seeds"]]


def values(run: dict[str, Any], kind: str, name: str = "mean_log_p") -> list[float]:
    """A measure of all seeds."""
    return [seed[kind][name] for seed in run["seeds"]]


def mean_depth(run: dict[str, Any]) -> float:
    """Of the most probable depths."""
    return statistics.fmean(depths(run))
