"""The last stage: the best architecture against random ones and against the weights it inherits."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from polyarch.export import Artifact, read_weights, write_artifact
from polyarch.jobs.context import Context
from polyarch.jobs.journalled import run_missing
from polyarch.jobs.parts import Parts
from polyarch.jobs.retraining import Retraining, evaluate
from polyarch.results import Accuracy, Contender
from polyarch.spaces import Architecture

Item = tuple[Architecture, int]
"""An architecture and a seed."""


def compare(context: Context, best: Architecture) -> tuple[list[Contender], dict[str, Any]]:
    """Retrains the best and random architectures the same way, tests all, and writes the artifact.

    Returns the contenders and what the artifact holds: the best architecture with the weights of the seed that did
    best on validation data.
    """
    settings = context.parts.settings.retrain
    best_items = [(best, seed) for seed in range(settings.seeds)]
    random_items = [(architecture, 0) for architecture in context.draw(settings.random_architectures, "random")]
    task = Retraining(context.parts, context.workspace.checkpoints / "retrain")
    trained = _train_all(context, list(dict.fromkeys(best_items + random_items)), task)
    best_runs = [trained[item] for item in best_items]
    contenders = [
        _contender("best architecture, retrained", best_runs),
        _contender("random architectures, retrained", [trained[item] for item in random_items]),
        _contender("best architecture, inherited weights", [_inherited(context.parts, best)]),
    ]
    chosen = max(best_runs, key=lambda run: run.valid_accuracy)
    return contenders, _write_artifact(context, best, chosen, task)


def _train_all(context: Context, items: Sequence[Item], task: Retraining) -> dict[Item, Accuracy]:
    """Trains every item that is not in the journal."""
    keyed = {f"{architecture.key} seed {seed}": (architecture, seed) for architecture, seed in items}
    journal = context.workspace.journal("retrain")
    executor = context.parts.executor()
    with context.display.stage("retrain") as report, context.stop.at_once(), executor.open(task) as retrain:
        records = run_missing(keyed, journal, retrain, dict, report)
    return {item: Accuracy(architecture=item[0].to_dict(), seed=item[1], **records[key]) for key, item in keyed.items()}


def _inherited(parts: Parts, architecture: Architecture) -> Accuracy:
    """The architecture as it comes out of the supernet, under the statistics policy of the scores."""
    network = parts.net.extract(architecture)
    parts.policy().prepare(network, parts.policy_inputs())
    valid = evaluate(network, parts.evaluation_batches(parts.valid))
    measured = evaluate(network, parts.evaluation_batches(parts.data.test))
    return Accuracy(architecture=architecture.to_dict(), seed=0, valid_accuracy=valid["accuracy"], **measured)


def _contender(name: str, runs: list[Accuracy]) -> Contender:
    values = [run.accuracy for run in runs]
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return Contender(name=name, mean=statistics.fmean(values), std=std, runs=runs)


def _write_artifact(context: Context, best: Architecture, chosen: Accuracy, task: Retraining) -> dict[str, Any]:
    parts = context.parts
    weights = read_weights(task.weights_path((best, chosen.seed)))
    write_artifact(
        context.workspace.artifact,
        Artifact(
            architecture=best.to_dict(),
            network=parts.settings.space.model_dump(mode="json"),
            preprocessing=parts.preprocessing.to_dict(),
            input_shape=parts.data.input_shape,
            classes=parts.data.class_names,
            weights=weights,
        ),
    )
    return {
        "architecture": best.to_dict(),
        "seed": chosen.seed,
        "accuracy": chosen.accuracy,
        "parameters": sum(parameter.numel() for parameter in parts.net.extract(best).parameters()),
    }
