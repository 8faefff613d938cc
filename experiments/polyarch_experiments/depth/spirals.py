"""What the experiments on spirals share: data by seed, learned and fixed depths for all seeds at once, measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from polyarch.data import Batches, Normalisation, TensorData, spirals
from polyarch.distributions import Categorical
from polyarch.methods.depth.posterior import DepthPosterior
from polyarch.methods.depth.search import RULES, DepthSearch, DepthTraining, choose_depth, depth_prior, exact_posterior
from polyarch.methods.depth.weighting import preferred, weighted_mixtures
from polyarch.objectives import log_marginal
from polyarch.randomness import global_seed
from polyarch.runs.judging import MemberOutputs
from polyarch.supernets import FullyConnectedDepth
from polyarch.tasks import Classification
from polyarch.training import History
from polyarch_experiments.depth.side_by_side import search_together, train_together
from polyarch_experiments.experiment import Settings
from polyarch_experiments.measures import scores

SPIRALS: Settings = {
    "seeds": 6, "max_depth": 20, "width": 20, "train": 200, "valid": 200, "test": 1800, "rotation": 720, "noise": 0.15,
    "epochs": 3000, "patience": 500,
}  # fmt: skip
"""The paper's setting, except for the number of steps, which the paper does not limit, and the validation points.

The authors' code chooses on test points; the choices made here need points of their own.
"""
QUICK: Settings = {**SPIRALS, "seeds": 2, "max_depth": 5, "epochs": 150, "patience": 100}
"""For tests: shows that everything runs; the numbers mean nothing."""
TASK = Classification(("inner", "outer"))


@dataclass(frozen=True)
class Problem:
    """Training batches and normalised validation and test examples of one seed."""

    train: Batches
    valid: TensorData
    inputs: Tensor
    targets: Tensor
    normalisation: Normalisation
    examples: TensorData


def problem(settings: Settings, seed: int) -> Problem:
    """The spirals of a seed; full batches, standardised by the statistics of the training points."""
    kind = {"rotation": settings["rotation"], "noise": settings["noise"]}
    train = spirals(settings["train"], seed=seed, **kind)
    valid = spirals(settings["valid"], seed=seed, stream="valid", **kind)
    test = spirals(settings["test"], seed=seed, stream="test", **kind)
    normalisation = Normalisation.of(train)
    batches = Batches(train, len(train), shuffle=False, preprocessing=normalisation)
    valid = TensorData(normalisation(valid.inputs), valid.targets, 2)
    return Problem(batches, valid, normalisation(test.inputs), test.targets, normalisation, train)


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


def fixed(settings: Settings, depth: int) -> list[tuple[Problem, FullyConnectedDepth, History]]:
    """A network of a fixed depth for every seed, trained side by side, for as many steps as learned ones."""
    seeds = range(settings["seeds"])
    problems = [problem(settings, seed) for seed in seeds]
    nets = [network(settings, seed, depth, depth) for seed in seeds]
    training = DepthTraining(epochs=settings["epochs"], patience=settings["patience"])
    found = train_together(training, nets, [one.train for one in problems], seed=0)
    return [(one, net.eval(), history) for one, (net, history) in zip(problems, found, strict=True)]


def measure_learned(settings: Settings) -> dict[str, Any]:
    """What `measure` keeps of networks with learned depth, one per seed."""
    return {"seeds": [measure(*parts) for parts in learned(settings)]}


def posterior(one: Problem, net: FullyConnectedDepth, q: Categorical) -> DepthPosterior:
    """Prior, learned q and the exact posterior for the weights as they are."""
    prior = depth_prior(net.space)
    found = DepthPosterior(prior, q, exact_posterior(net, prior, one.train))
    net.eval()
    return found


@torch.no_grad()
def measure(one: Problem, net: FullyConnectedDepth, q: Categorical, history: History) -> dict[str, Any]:
    """What is kept of a trained network with learned depth.

    Depths by every rule from the exact posterior (``depths``) and from the learned q (``learned_depths``), both
    posteriors and KL(learned || exact), the bound, and test results: of all depths under the exact posterior
    (``unpruned``) and the learned q (``unpruned learned``), of the mixtures with learned, exact and stacked weights, of
    the one with the lowest validation loss (``pruned``), and of the chosen depth ``alone``.
    """
    found = posterior(one, net, q)
    sources = {"learned": found.learned, "exact": found.exact}
    chosen = {name: {rule: choose_depth(source, rule) for rule in RULES} for name, source in sources.items()}
    valid, test = (net.forward_many(inputs, net.space.members).double() for inputs in (one.valid.inputs, one.inputs))
    exits = MemberOutputs(TASK, valid, one.valid.targets, test, one.targets)
    kept = {name: (source, chosen[name]["argmax"]) for name, source in sources.items()}
    mixtures = weighted_mixtures(exits, kept, len(net.space.members) - 1)
    weighting = preferred(mixtures, "best")
    members = torch.log_softmax(test, -1)

    def tested(log_weights: Tensor) -> dict[str, float]:
        return scores(log_marginal(members[: len(log_weights)], log_weights), one.targets)

    by_weights = {name: tested(mixture.weights.log()) for name, mixture in mixtures.items()}
    return {
        "depths": chosen["exact"],
        "learned_depths": chosen["learned"],
        "q": _rounded(found.learned),
        "exact": _rounded(found.exact),
        "kl": found.divergence,
        "elbo": max(history["elbo"]),
        "iterations": len(history.rows),
        "unpruned": tested(found.exact.log_probabilities()),
        "unpruned learned": tested(found.learned.log_probabilities().double()),
        "weighting": weighting,
        "valid": {name: -mixture.valid_loss for name, mixture in mixtures.items()},
        "mixtures": by_weights,
        "pruned": by_weights[weighting],
        "alone": scores(members[chosen["exact"]["argmax"]], one.targets),
    }


def measure_fixed(settings: Settings, depth: int) -> dict[str, Any]:
    """Validation and test results of networks of a fixed depth, one per seed."""
    found = []
    for one, net, history in fixed(settings, depth):
        with torch.no_grad():
            valid, test = (
                scores(torch.log_softmax(net(inputs, net.space.members[-1]), -1), targets)
                for inputs, targets in ((one.valid.inputs, one.valid.targets), (one.inputs, one.targets))
            )
        found.append({"iterations": len(history.rows), "valid": valid["mean_log_p"], "test": test})
    return {"seeds": found}


def depths(run: dict[str, Any], rule: str = "argmax", source: str = "depths") -> list[float]:
    """The depths that all seeds choose from the exact posterior, or from the learned q (``learned_depths``)."""
    return [float(seed[source][rule]) for seed in run["seeds"]]


def values(run: dict[str, Any], kind: str, name: str = "mean_log_p") -> list[float]:
    """A measure of all seeds."""
    return [seed[kind][name] for seed in run["seeds"]]


def weighted(run: dict[str, Any], weights: str, name: str = "mean_log_p") -> list[float]:
    """A measure of the mixtures of all seeds with learned, exact or stacked weights."""
    return [seed["mixtures"][weights][name] for seed in run["seeds"]]


def _rounded(q: Categorical) -> list[float]:
    return [round(value, 6) for value in q.log_probabilities().exp().tolist()]
