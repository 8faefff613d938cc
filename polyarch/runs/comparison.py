"""The last stage: the best architectures trained from scratch, against random ones and against inherited weights."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch
from torch import nn

from polyarch.distributions import FactorisedCategorical
from polyarch.export import read_weights
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.run import Context
from polyarch.runs.journal import run_missing
from polyarch.runs.judging import Ensemble
from polyarch.runs.parts import Parts
from polyarch.runs.retraining import Retraining, evaluate
from polyarch.predictive import most_probable
from polyarch.results import Accuracy, Contender, PredictorRecord
from polyarch.spaces import Architecture

EXPORT_SECONDS = 40.0
"""What is kept free at the end of a limited time, for calibration, artifacts and report."""

POSTERIOR_MEMBERS = 8
"""The most members of a mixture over a learned distribution."""

Item = tuple[Architecture, int]
"""An architecture and a seed."""


@dataclass(frozen=True)
class Comparison:
    """What the stage found.

    Args:
        artifact: what the folder of the best network holds, in numbers.
        predictors: the best network, with several members the ensemble, and the mixture over a learned distribution.
    """

    contenders: list[Contender]
    artifact: dict[str, Any]
    predictors: list[PredictorRecord]


def compare(context: Context, best: Sequence[Architecture], q: Mapping[str, list[float]] | None) -> Comparison:
    """Trains the best and random architectures the same way, tests all, calibrates and writes the artifacts.

    The first of ``best`` is trained with several seeds; its artifact has the weights of the seed that did best on
    validation data. All of them together are the ensemble. If a distribution was learned with the supernet, its most
    probable architectures are a mixture, too, with the weights they inherit.

    Args:
        best: the best of the search first.
        q: the learned distribution, choice -> the probabilities of its options.
    """
    parts, settings = context.parts, context.parts.settings.retrain
    first = best[0]
    first_items = [(first, seed) for seed in range(settings.seeds)]
    member_items = [(architecture, 0) for architecture in best[1:]]
    random_items = [(architecture, 0) for architecture in context.draw(settings.random_architectures, "random")]
    # By importance, because a limit on the time may cut the list short.
    mixed = [item for pair in zip_longest(member_items, random_items) for item in pair if item is not None]
    ordered = list(dict.fromkeys([first_items[0], *mixed, *first_items[1:]]))
    task = Retraining(parts, context.workspace.checkpoints / "retrain")
    trained = train_all(context, ordered, task)
    first_runs = [trained[item] for item in first_items if item in trained]
    random_runs = [trained[item] for item in random_items if item in trained]
    contenders = [contender("best architecture, retrained", first_runs)]
    if random_runs:
        contenders.append(contender("random architectures, retrained", random_runs))
    contenders.append(contender("best architecture, inherited weights", [_inherited(parts, first)]))
    chosen = max(first_runs, key=lambda run: run.valid_accuracy)
    members = [(first, chosen.seed), *[item for item in member_items if item in trained]]
    networks = [(item[0], trained_network(parts, item, task)) for item in members]
    sides = [(Ensemble.of("best architecture", networks[:1]), context.workspace.artifact)]
    if len(networks) > 1:
        sides.append((Ensemble.of(f"ensemble of {len(networks)}", networks), context.workspace.ensemble))
    if q is not None:
        sides.append((_posterior(context, q), context.workspace.posterior))
    predictors = write_predictors(context, sides)
    return Comparison(contenders, _summary(parts, first, chosen), predictors)


def train_all(
    context: Context, items: Sequence[Item], task: Retraining, *, stage: str = "retrain"
) -> dict[Item, Accuracy]:
    """Trains every item that is not in the journal of the stage, as far as the time goes; the first always."""
    keyed = {f"{architecture.key} seed {seed}": (architecture, seed) for architecture, seed in items}
    journal = context.workspace.journal(stage)
    executor = context.parts.executor()
    with context.display.stage(stage) as report, context.stop.at_once(), executor.open(task) as retrain:
        workers = context.parts.settings.workers
        records = run_missing(
            keyed,
            journal,
            retrain,
            dict,
            report,
            wave=workers,
            seconds_left=lambda: context.seconds_left() - EXPORT_SECONDS,
        )
    if len(records) < len(keyed):
        context.workspace.log("out of time", trained=len(records), planned=len(keyed))
    return {
        item: Accuracy(architecture=item[0].to_dict(), seed=item[1], **records[key])
        for key, item in keyed.items()
        if key in records
    }


def _inherited(parts: Parts, architecture: Architecture) -> Accuracy:
    """The architecture as it comes out of the supernet."""
    network = inherited_network(parts, architecture)
    valid = evaluate(network, parts.evaluation_batches(parts.valid))
    measured = evaluate(network, parts.evaluation_batches(parts.data.test))
    return Accuracy(architecture=architecture.to_dict(), seed=0, valid_accuracy=valid["accuracy"], **measured)


def inherited_network(parts: Parts, architecture: Architecture) -> nn.Module:
    """With the supernet's weights, under the statistics policy of the scores."""
    network = parts.net.extract(architecture)
    parts.policy().prepare(network, parts.policy_inputs())
    return network


def contender(name: str, runs: list[Accuracy]) -> Contender:
    """One side of the comparison, with mean and spread."""
    values = [run.accuracy for run in runs]
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return Contender(name=name, mean=statistics.fmean(values), std=std, runs=runs)


def _posterior(context: Context, q: Mapping[str, list[float]]) -> Ensemble:
    """The most probable architectures of q that keep the limits, weighted by q, with inherited weights."""
    parts = context.parts
    smallest = torch.finfo(torch.float32).tiny
    logits = {name: torch.tensor(values).clamp_min(smallest).log() for name, values in q.items()}
    pairs = most_probable(FactorisedCategorical(parts.net.space, logits, learnable=False), 4 * POSTERIOR_MEMBERS)
    kept = [pair for pair in pairs if context.limits.allows(pair[0])][:POSTERIOR_MEMBERS]
    if not kept:
        kept = [(context.draw(1, "posterior")[0], 0.0)]
    shares = torch.tensor([value for _, value in kept], dtype=torch.float64).softmax(0).tolist()
    members = [(architecture, inherited_network(parts, architecture)) for architecture, _ in kept]
    return Ensemble.of(f"mixture over the learned distribution ({len(kept)})", members, shares, inherited=True)


def trained_network(parts: Parts, item: Item, task: Retraining) -> nn.Module:
    """What the task trained, in evaluation mode."""
    network = parts.fresh(item[0], seed=0)
    network.load_state_dict(read_weights(task.weights_path(item)))
    return network.eval()


def _summary(parts: Parts, best: Architecture, chosen: Accuracy) -> dict[str, Any]:
    return {
        "architecture": best.to_dict(),
        "seed": chosen.seed,
        "accuracy": chosen.accuracy,
        "parameters": sum(parameter.numel() for parameter in parts.fresh(best, seed=0).parameters()),
    }
