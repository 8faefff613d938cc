"""After a depth was learned: choose it, prune, compare ways to predict, and export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.distributions import Categorical
from polyarch.errors import ConfigError
from polyarch.methods.depth.functions import depth_functions
from polyarch.methods.depth.search import RULES, choose_depth, depth_prior, expected_depth, prune
from polyarch.methods.depth.timing import forward_seconds
from polyarch.nn import Repeat, StackedNetworks
from polyarch.predictive import choose_confidence, exit_curve
from polyarch.results import Accuracy, DepthMeasure, DepthPredictor, DepthRecord, ExitPoint
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.comparison import Comparison, contender, inherited_network
from polyarch.runs.judging import Ensemble
from polyarch.runs.member_logits import MemberLogits
from polyarch.runs.parts import Parts
from polyarch.runs.run import Context
from polyarch.spaces import Architecture, Space
from polyarch.supernets import DepthSupernet, ModuleSupernet, RepeatSupernet

CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
TIMED_BATCH = 64


def require_depths(parts: Parts) -> None:
    """Refuses spaces that are not a depth and nothing else."""
    net, space = parts.net, parts.net.space
    is_depth = isinstance(net, DepthSupernet)
    if isinstance(net, ModuleSupernet):
        is_depth = any(isinstance(module, Repeat) for module in net.model.modules())
    if len(space.choices) != 1 or not is_depth:
        what = ", ".join(f"{choice.name!r} ({len(choice)} options)" for choice in space.choices[:4])
        raise ConfigError(
            f"Expected a network whose only choice is its depth: depth_fc, depth_cnn, or your own with one Repeat. "
            f"Got {len(space.choices)} choice{'s' if len(space.choices) > 1 else ''} in {space.name!r}: {what}."
        )


def depths_of(space: Space) -> list[int]:
    """The depths on offer."""
    return [int(option) for option in space.choices[0].options]


@dataclass(frozen=True)
class FoundDepth:
    """What a depth search found; ``seconds`` are measured, everything else is the same bits for the same settings."""

    record: DepthRecord
    comparison: Comparison
    seconds: dict[str, float]


def find_depth(context: Context, q: Mapping[str, list[float]]) -> FoundDepth:
    """Chooses a depth by the rule, prunes, and exports the pruned network alone and as a mixture.

    Args:
        q: the learned probabilities of the only choice.
    """
    parts = context.parts
    space, depths = parts.net.space, depths_of(parts.net.space)
    (probabilities,) = q.values()
    smallest = torch.finfo(torch.float32).tiny
    learned = Categorical(space, torch.tensor(probabilities).clamp_min(smallest).log(), learnable=False)
    network = _exits(parts, space.members)
    exits = MemberLogits.of(parts, network)
    settings = parts.settings.depth
    choices = {rule: choose_depth(learned, rule) for rule in RULES}
    chosen = _within_limits(context, choices[settings.rule])
    weights = prune(learned, chosen).probabilities.double().clamp_min(smallest)
    weights = weights / weights.sum()
    kept = space.members[: chosen + 1]
    mixture = Ensemble("pruned mixture", kept, _exits(parts, kept), weights.tolist())
    curve, confidence = _early_exit(exits, mixture, depths)
    pruned = _alone(parts, space.members[chosen])
    record = DepthRecord(
        rule=settings.rule,
        chosen=depths[chosen],
        choices={rule: depths[position] for rule, position in choices.items()},
        expected=depths[0] + expected_depth(learned.log_probabilities().exp()),
        prior=_prior_in_words(parts),
        updates=settings.updates,
        depths=_measures(parts, exits, learned),
        predictors=_ways(parts, exits, learned, chosen, weights),
        exits=curve,
        exit_confidence=confidence,
        functions=depth_functions(parts, network, depths),
    )
    sides = [
        (Ensemble.of("pruned network alone", [(space.members[chosen], pruned)]), context.workspace.artifact),
        (replace(mixture, exit_confidence=confidence), context.workspace.posterior),
    ]
    predictors = write_predictors(context, sides)
    contenders = [contender(way.name, [_accuracy(way, space)]) for way in _exported_first(record)]
    comparison = Comparison(contenders, _summary(pruned, space.members[chosen], record), predictors)
    return FoundDepth(record, comparison, forward_times(parts, pruned))


def forward_times(parts: Parts, network: nn.Module) -> dict[str, float]:
    """The seconds of a forward pass of a network and of the full depth, on some test examples."""
    full = parts.net.extract(parts.net.space.members[-1]).eval()
    inputs = next(iter(parts.evaluation_batches(parts.data.test).epoch(0))).inputs[:TIMED_BATCH]
    return forward_seconds({"forward_full": full, "forward_pruned": network}, inputs)


def _exits(parts: Parts, architectures: Sequence[Architecture]) -> nn.Module:
    """One network that gives the logits of all these depths, in evaluation mode."""
    if isinstance(parts.net, ModuleSupernet) and not isinstance(parts.net, RepeatSupernet):
        return StackedNetworks(_alone(parts, architecture) for architecture in architectures).eval()
    return parts.net.extract_many(architectures).eval()


def _alone(parts: Parts, architecture: Architecture) -> nn.Module:
    """One depth as a network; its batch statistics are its own, or adapted where the supernet mixes them."""
    if isinstance(parts.net, ModuleSupernet) and not isinstance(parts.net, RepeatSupernet):
        return inherited_network(parts, architecture)
    return parts.net.extract(architecture).eval()


def _within_limits(context: Context, position: int) -> int:
    """The depth by the rule, or the deepest below it that keeps the limits."""
    members = context.parts.net.space.members
    while position >= 0 and not context.limits.allows(members[position]):
        position -= 1
    if position < 0:
        raise ConfigError("Expected limits that the shallowest network keeps. Got limits that no depth keeps.")
    return position


def _early_exit(exits: MemberLogits, mixture: Ensemble, depths: Sequence[int]) -> tuple[list[ExitPoint], float | None]:
    """Early exit of the pruned mixture at several confidences, and the one that validation examples choose.

    All at the temperature with which the mixture predicts: another one makes other probabilities of the same exits.
    """
    count = len(mixture.architectures)
    temperature = mixture.temperature(exits.valid[:count], exits.valid_targets)
    arguments = (mixture.weights, depths[:count], [*CONFIDENCES, float("inf")], temperature)
    *on_valid, full = exit_curve(exits.valid[:count], exits.valid_targets, *arguments)
    on_test = exit_curve(exits.test[:count], exits.targets, *arguments)
    points = [
        ExitPoint(
            confidence=test.confidence,
            valid_accuracy=valid.accuracy,
            accuracy=test.accuracy,
            loss=test.negative_log_likelihood,
            mean_depth=test.mean_depth,
        )
        for valid, test in zip(on_valid, on_test, strict=False)
    ]
    return points, choose_confidence(on_valid, full)


def _measures(parts: Parts, exits: MemberLogits, learned: Categorical) -> list[DepthMeasure]:
    space = parts.net.space
    prior = depth_prior(space, parts.settings.depth.prior, parts.settings.train.prior_ratio)
    columns = (learned.log_probabilities().exp().tolist(), prior.log_probabilities().exp().tolist())
    found = []
    for position, (depth, q, p) in enumerate(zip(depths_of(space), *columns, strict=True)):
        alone = torch.zeros(position + 1, dtype=torch.float64)
        alone[position] = 1.0
        measured = exits.measure(alone)
        found.append(
            DepthMeasure(
                depth=depth,
                parameters=parts.net.parameter_count(space.members[position]),
                q=q,
                prior=p,
                **{name: measured[name] for name in ("valid_accuracy", "valid_loss", "accuracy", "loss")},
            )
        )
    return found


def _ways(parts: Parts, exits: MemberLogits, learned: Categorical, chosen: int, pruned: Tensor) -> list[DepthPredictor]:
    """The ways to predict, from the whole mixture to the pruned network alone."""
    space = parts.net.space
    deepest = len(space.members) - 1
    everything = learned.log_probabilities().double().exp()
    ways = {
        "mixture of all depths": (deepest, everything),
        "pruned mixture": (chosen, pruned),
        "pruned network alone": (chosen, _one_hot(chosen)),
        "full depth alone": (deepest, _one_hot(deepest)),
    }
    names = set(DepthPredictor.model_fields) - {"name", "blocks", "parameters"}
    found = []
    for name, (position, weights) in ways.items():
        measured = exits.measure(weights)
        found.append(
            DepthPredictor(
                name=name,
                blocks=depths_of(space)[position],
                parameters=parts.net.parameter_count(space.members[position]),
                **{key: measured[key] for key in names},
            )
        )
    return found


def _one_hot(position: int) -> Tensor:
    weights = torch.zeros(position + 1, dtype=torch.float64)
    weights[position] = 1.0
    return weights


def _exported_first(record: DepthRecord) -> list[DepthPredictor]:
    return sorted(record.predictors, key=lambda way: way.name != "pruned network alone")


def _accuracy(way: DepthPredictor, space: Space) -> Accuracy:
    return Accuracy(
        architecture=space.architecture([str(way.blocks)]).to_dict(),
        seed=0,
        accuracy=way.accuracy,
        loss=way.loss,
        calibration_error=way.calibration_error,
        valid_accuracy=way.valid_accuracy,
    )


def _summary(network: nn.Module, architecture: Architecture, record: DepthRecord) -> dict[str, Any]:
    alone = _exported_first(record)[0]
    return {
        "architecture": architecture.to_dict(),
        "accuracy": alone.accuracy,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
    }


def _prior_in_words(parts: Parts) -> str:
    prior = parts.settings.depth.prior
    if prior == "geometric":
        return f"geometric, ratio {parts.settings.train.prior_ratio:g}"
    return prior if isinstance(prior, str) else "given"
