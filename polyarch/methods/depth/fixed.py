"""The baseline of a learned depth: a network from scratch for every depth, the best chosen on validation examples."""

import statistics
from collections.abc import Sequence

from polyarch.errors import ConfigError
from polyarch.methods.depth.choice import depths_of, forward_times
from polyarch.methods.depth.record import DepthMeasure, DepthRecord
from polyarch.methods.depth.settings import DepthSettings
from polyarch.results import NetworkRecord, Role
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.comparison import contender, parameter_count
from polyarch.runs.judging import Ensemble
from polyarch.runs.retraining import Retraining, evaluate, train_all, trained_network
from polyarch.runs.run import Run
from polyarch.runs.stage import Outcome
from polyarch.spaces import Architecture

MOST_DEPTHS = 8


def fixed_depths(run: Run) -> list[Architecture]:
    """The depths that are trained: those that were asked for, or up to eight evenly spread ones."""
    space = run.net.space
    by_depth = dict(zip(depths_of(space), space.members, strict=True))
    asked = run.settings.section(DepthSettings).depths
    unknown = sorted(set(asked) - set(by_depth))
    if unknown:
        raise ConfigError(f"Expected depths from {min(by_depth)} to {max(by_depth)}. Got {unknown[0]}.")
    if asked:
        return [by_depth[depth] for depth in sorted(set(asked))]
    blocks = [architecture for depth, architecture in by_depth.items() if depth > 0]
    count = min(MOST_DEPTHS, len(blocks))
    positions = {round((index + 1) * len(blocks) / count) - 1 for index in range(count)}
    return [blocks[position] for position in sorted(positions)]


def allowed_depths(run: Run) -> list[Architecture]:
    """Those of `fixed_depths` that keep the limits."""
    kept = [architecture for architecture in fixed_depths(run) if run.limits.allows(architecture)]
    if not kept:
        raise ConfigError("Expected limits that one of the depths keeps. Got limits that none of them keeps.")
    return kept


def compare_depths(run: Run, outcome: Outcome) -> None:
    """Trains every depth alone, ``retrain.seeds`` times, and exports the one with the lowest mean validation loss."""
    kept = allowed_depths(run)
    task = Retraining(run, run.workspace.checkpoints / "retrain")
    items = [(architecture, seed) for seed in range(run.settings.retrain.seeds) for architecture in kept]
    trained = train_all(run, items, task)
    kept = [architecture for architecture in kept if (architecture, 0) in trained]  # time may have run out
    runs = {architecture: [one for item, one in trained.items() if item[0] == architecture] for architecture in kept}
    valid = run.feed.in_order(run.feed.valid)
    losses = {item: evaluate(run.task, trained_network(task, item), valid)["loss"] for item in trained}
    measures = [_measure(run, architecture, runs[architecture], losses) for architecture in kept]
    best = min(range(len(kept)), key=lambda index: measures[index].valid_loss)
    chosen = run.task.selection.best(runs[kept[best]], lambda one: one.valid_score)
    network = trained_network(task, (kept[best], chosen.seed))
    side = (Ensemble.of("best depth", [(kept[best], network)]), run.workspace.artifact)
    order = [best, *(index for index in range(len(kept)) if index != best)]
    outcome.comparison = [
        contender(f"depth {measures[index].depth}", Role.BEST if index == best else Role.OTHER, runs[kept[index]])
        for index in order
    ]
    outcome.predictors, outcome.default = write_predictors(run, [side]), run.workspace.artifact.name
    outcome.record = DepthRecord(
        rule="validation",
        chosen=measures[best].depth,
        choices={},
        expected=None,
        prior="",
        updates="",
        depths=measures,
        predictors=[],
    )
    outcome.artifact = {
        "architecture": kept[best].to_dict(),
        "seed": chosen.seed,
        "score": chosen.score,
        "parameters": parameter_count(network),
    }
    outcome.seconds |= forward_times(run, {"forward_pruned": network})


def _measure(
    run: Run, architecture: Architecture, runs: Sequence[NetworkRecord], losses: dict[tuple[Architecture, int], float]
) -> DepthMeasure:
    """Means over seeds."""
    return DepthMeasure(
        depth=int(architecture.names[0]),
        parameters=run.net.parameter_count(architecture),
        valid_score=statistics.fmean(run.valid_score for run in runs),
        valid_loss=statistics.fmean(losses[architecture, run.seed] for run in runs),
        score=statistics.fmean(run.score for run in runs),
        loss=statistics.fmean(run.loss for run in runs),
        resampled=runs[0].resampled if len(runs) == 1 else None,
    )
