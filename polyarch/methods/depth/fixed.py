"""The baseline of a learned depth: a network from scratch for every depth, the best chosen on validation examples."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from polyarch.errors import ConfigError
from polyarch.methods.depth.choice import FoundDepth, depths_of, forward_times
from polyarch.results import Accuracy, DepthMeasure, DepthRecord
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.comparison import Comparison, contender, train_all, trained_network
from polyarch.runs.judging import Ensemble
from polyarch.runs.parts import Parts
from polyarch.runs.retraining import Retraining, evaluate
from polyarch.runs.run import Context
from polyarch.spaces import Architecture

MOST_DEPTHS = 8


def fixed_depths(parts: Parts) -> list[Architecture]:
    """The depths that are trained: those that were asked for, or up to eight evenly spread ones."""
    space = parts.net.space
    by_depth = dict(zip(depths_of(space), space.members, strict=True))
    asked = parts.settings.depth.depths
    unknown = sorted(set(asked) - set(by_depth))
    if unknown:
        raise ConfigError(f"Expected depths from {min(by_depth)} to {max(by_depth)}. Got {unknown[0]}.")
    if asked:
        return [by_depth[depth] for depth in sorted(set(asked))]
    blocks = [architecture for depth, architecture in by_depth.items() if depth > 0]
    count = min(MOST_DEPTHS, len(blocks))
    positions = {round((index + 1) * len(blocks) / count) - 1 for index in range(count)}
    return [blocks[position] for position in sorted(positions)]


def allowed_depths(context: Context) -> list[Architecture]:
    """Those of `fixed_depths` that keep the limits."""
    kept = [architecture for architecture in fixed_depths(context.parts) if context.limits.allows(architecture)]
    if not kept:
        raise ConfigError("Expected limits that one of the depths keeps. Got limits that none of them keeps.")
    return kept


def compare_depths(context: Context) -> FoundDepth:
    """Trains every depth alone, ``retrain.seeds`` times, and exports the one with the lowest mean validation loss."""
    parts, kept = context.parts, allowed_depths(context)
    task = Retraining(parts, context.workspace.checkpoints / "retrain")
    items = [(architecture, seed) for seed in range(parts.settings.retrain.seeds) for architecture in kept]
    trained = train_all(context, items, task)
    kept = [architecture for architecture in kept if (architecture, 0) in trained]  # time may have run out
    runs = {architecture: [run for item, run in trained.items() if item[0] == architecture] for architecture in kept}
    losses = {
        item: evaluate(trained_network(parts, item, task), parts.evaluation_batches(parts.valid))["loss"]
        for item in trained
    }
    measures = [_measure(parts, architecture, runs[architecture], losses) for architecture in kept]
    best = min(range(len(kept)), key=lambda index: measures[index].valid_loss)
    chosen = max(runs[kept[best]], key=lambda run: run.valid_accuracy)
    network = trained_network(parts, (kept[best], chosen.seed), task)
    predictors = write_predictors(
        context, [(Ensemble.of("best depth", [(kept[best], network)]), context.workspace.artifact)]
    )
    order = [best, *(index for index in range(len(kept)) if index != best)]
    contenders = [contender(f"depth {measures[index].depth}", runs[kept[index]]) for index in order]
    record = DepthRecord(
        rule="validation",
        chosen=measures[best].depth,
        choices={},
        expected=None,
        prior="",
        updates="",
        depths=measures,
        predictors=[],
    )
    summary = {
        "architecture": kept[best].to_dict(),
        "seed": chosen.seed,
        "accuracy": chosen.accuracy,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
    }
    return FoundDepth(record, Comparison(contenders, summary, predictors), forward_times(parts, network))


def _measure(
    parts: Parts,
    architecture: Architecture,
    runs: Sequence[Accuracy],
    losses: dict[tuple[Architecture, int], float],
) -> DepthMeasure:
    """Means over seeds."""
    return DepthMeasure(
        depth=int(architecture.names[0]),
        parameters=parts.net.parameter_count(architecture),
        valid_accuracy=statistics.fmean(run.valid_accuracy for run in runs),
        valid_loss=statistics.fmean(losses[architecture, run.seed] for run in runs),
        accuracy=statistics.fmean(run.accuracy for run in runs),
        loss=statistics.fmean(run.loss for run in runs),
    )
