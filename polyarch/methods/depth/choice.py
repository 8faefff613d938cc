"""After a depth was learned: choose it, prune, compare ways to predict, and export."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from polyarch.data import Inputs
from polyarch.distributions import Categorical
from polyarch.errors import ConfigError
from polyarch.methods.depth.functions import depth_functions
from polyarch.methods.depth.posterior import DepthPosterior
from polyarch.methods.depth.record import (
    FULL,
    MIXTURE,
    PRUNED,
    PRUNED_MIXTURE,
    DepthMeasure,
    DepthPredictor,
    DepthRecord,
    ExitPoint,
    MixtureMeasure,
)
from polyarch.methods.depth.search import RULES, choose_depth, expected_depth
from polyarch.methods.depth.settings import DepthSettings
from polyarch.methods.depth.weighting import WeightedMixture, Weighting, preferred, weighted_mixtures
from polyarch.nn import Repeat, StackedNetworks
from polyarch.predictive import choose_confidence, exit_curve
from polyarch.results import NetworkRecord, Role
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.comparison import contender, inherited_network, parameter_count
from polyarch.runs.judging import Ensemble, MemberOutputs
from polyarch.runs.run import Run
from polyarch.runs.stage import Outcome
from polyarch.spaces import Architecture, Space
from polyarch.supernets import DepthSupernet, ModuleSupernet, RepeatSupernet
from polyarch.tasks import Classification

CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
TIMED_BATCH = 64
ROLES = {PRUNED: Role.BEST, PRUNED_MIXTURE: Role.MIXTURE, MIXTURE: Role.OTHER, FULL: Role.BASELINE}
"""The ways to predict."""


def require_depths(run: Run) -> None:
    """Refuses spaces that are not a depth and nothing else."""
    net, space = run.net, run.net.space
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


def choose(run: Run, outcome: Outcome) -> None:
    """Chooses a depth from the posterior and exports the network of this depth, and a mixture of depths, the default.

    Validation examples choose the weights of the mixture, unless the settings do; see `weighted_mixtures`.
    """
    space, depths, settings = run.net.space, depths_of(run.net.space), run.settings.section(DepthSettings)
    posterior = DepthPosterior.of(run, outcome.training)
    sources = {"learned": posterior.learned, "exact": posterior.exact}
    choices = {name: {rule: choose_depth(one, rule) for rule in RULES} for name, one in sources.items()}
    kept = {name: _within_limits(run, found[settings.rule]) for name, found in choices.items()}
    q, chosen = sources[settings.posterior], kept[settings.posterior]
    (other,) = sources.keys() - {settings.posterior}
    network = _exits(run, space.members)
    exits = MemberOutputs.of(run, network)
    mixtures = weighted_mixtures(
        exits, {name: (one, kept[name]) for name, one in sources.items()}, _within_limits(run, len(depths) - 1)
    )
    weighting = preferred(mixtures, settings.weighting)
    weights = mixtures[weighting].weights
    members = space.members[: len(weights)]
    mixture = Ensemble(PRUNED_MIXTURE, members, _exits(run, members), weights.tolist())
    curve, confidence = _early_exit(exits, mixture, depths) if isinstance(run.task, Classification) else ([], None)
    pruned = _alone(run, space.members[chosen])
    record = DepthRecord(
        rule=settings.rule,
        chosen=depths[chosen],
        choices={rule: depths[position] for rule, position in choices[settings.posterior].items()},
        posterior=settings.posterior,
        other_choices={rule: depths[position] for rule, position in choices[other].items()},
        divergence=posterior.divergence,
        expected=depths[0] + expected_depth(q.log_probabilities().exp()),
        prior=_prior_in_words(run),
        updates=settings.updates,
        depths=_measures(run, exits, posterior, q),
        weighting=weighting,
        mixtures=[_mixture_measure(exits, name, one) for name, one in mixtures.items()],
        predictors=_ways(run, exits, chosen, weights, q),
        exits=curve,
        exit_confidence=confidence,
        functions=depth_functions(run, network, depths),
    )
    sides = [
        (Ensemble.of(PRUNED, [(space.members[chosen], pruned)]), run.workspace.artifact),
        (replace(mixture, exit_confidence=confidence), run.workspace.posterior),
    ]
    ways = sorted(record.predictors, key=lambda way: way.name != PRUNED)  # what is exported first
    outcome.record, outcome.predictors = record, write_predictors(run, sides)
    outcome.comparison = [contender(way.name, ROLES[way.name], [_network_record(way, space)]) for way in ways]
    outcome.default = run.workspace.posterior.name
    outcome.decisions.append(weighting_in_words(record, settings.weighting))
    outcome.artifact = {
        "architecture": space.members[chosen].to_dict(),
        "score": ways[0].score,
        "parameters": parameter_count(pruned),
    }
    outcome.seconds |= forward_times(run, {"forward_pruned": pruned, "forward_mixture": mixture.networks})


def weighting_in_words(record: DepthRecord, asked: Weighting) -> str:
    """Which weights the mixture has, and why."""
    (depth,) = (way.blocks for way in record.predictors if way.name == PRUNED_MIXTURE)
    said = f"mixture of the depths up to {depth}: {record.weighting} weights"
    if asked != "best":
        return f"{said}, as asked for"
    *others, last = (f"{one.valid_loss:.4f} {one.weighting}" for one in record.mixtures)
    return f"{said}, which have the lowest validation loss ({', '.join(others)} and {last}, cross-validated)"


def forward_times(run: Run, networks: Mapping[str, nn.Module]) -> dict[str, float]:
    """The seconds of a forward pass of networks and of the full depth, on some test examples."""
    full = run.net.extract(run.net.space.members[-1]).eval()
    inputs = next(iter(run.feed.in_order(run.feed.data.test).epoch(0))).inputs[:TIMED_BATCH]
    return forward_seconds({"forward_full": full, **networks}, inputs)


def _exits(run: Run, architectures: Sequence[Architecture]) -> nn.Module:
    """One network that gives the outputs of all these depths, in evaluation mode."""
    if isinstance(run.net, ModuleSupernet) and not isinstance(run.net, RepeatSupernet):
        return StackedNetworks(_alone(run, architecture) for architecture in architectures).eval()
    return run.net.extract_many(architectures).eval()


def _alone(run: Run, architecture: Architecture) -> nn.Module:
    """One depth as a network; its batch statistics are its own, or adapted where the supernet mixes them."""
    if isinstance(run.net, ModuleSupernet) and not isinstance(run.net, RepeatSupernet):
        return inherited_network(run, architecture)
    return run.net.extract(architecture).eval()


def _within_limits(run: Run, position: int) -> int:
    """The depth by the rule, or the deepest below it that keeps the limits."""
    members = run.net.space.members
    while position >= 0 and not run.limits.allows(members[position]):
        position -= 1
    if position < 0:
        raise ConfigError("Expected limits that the shallowest network keeps. Got limits that no depth keeps.")
    return position


def _early_exit(exits: MemberOutputs, mixture: Ensemble, depths: Sequence[int]) -> tuple[list[ExitPoint], float | None]:
    """Early exit of the pruned mixture at several confidences, and the one that validation examples choose.

    All at the temperature with which the mixture predicts: another one makes other probabilities of the same exits.
    """
    count = len(mixture.architectures)
    weights = torch.tensor(mixture.weights, dtype=exits.valid.dtype)
    temperature = exits.task.calibrate(exits.valid[:count], exits.valid_targets, weights, flag=0.0).temperature
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


def _measures(run: Run, exits: MemberOutputs, posterior: DepthPosterior, q: Categorical) -> list[DepthMeasure]:
    space = run.net.space
    named = {"q": q, "exact": posterior.exact, "learned": posterior.learned, "prior": posterior.prior}
    shares = {name: one.log_probabilities().exp().tolist() for name, one in named.items()}
    found = []
    for position, depth in enumerate(depths_of(space)):
        measured = exits.alone(position, names=None)
        found.append(
            DepthMeasure(
                depth=depth,
                parameters=run.net.parameter_count(space.members[position]),
                **{name: values[position] for name, values in shares.items()},
                **{name: measured[name] for name in ("valid_score", "valid_loss", "score", "loss", "resampled")},
            )
        )
    return found


def _mixture_measure(exits: MemberOutputs, name: str, mixture: WeightedMixture) -> MixtureMeasure:
    measured = exits.measure(mixture.weights, names=None)
    return MixtureMeasure(
        weighting=name,
        weights=mixture.weights.tolist(),
        valid_loss=mixture.valid_loss,
        **{name: measured[name] for name in ("score", "loss", "resampled")},
    )


def _ways(run: Run, exits: MemberOutputs, chosen: int, weights: Tensor, q: Categorical) -> list[DepthPredictor]:
    """The ways to predict: all depths weighted by q, the mixture with its weights, and one depth alone."""
    space = run.net.space
    deepest = len(space.members) - 1
    ways = {
        MIXTURE: (deepest, q.log_probabilities().exp()),
        PRUNED_MIXTURE: (len(weights) - 1, weights),
        PRUNED: (chosen, _one_hot(chosen)),
        FULL: (deepest, _one_hot(deepest)),
    }
    found = []
    for name, (position, weights) in ways.items():
        measured = exits.measure(weights, names=None)
        found.append(
            DepthPredictor(
                name=name,
                blocks=depths_of(space)[position],
                parameters=run.net.parameter_count(space.members[position]),
                mean_probability=_mean_probability(exits, weights),
                **measured,
            )
        )
    return found


def _mean_probability(exits: MemberOutputs, weights: Tensor) -> float | None:
    """The mean probability of the true class of test examples, where classes are predicted."""
    if not isinstance(exits.task, Classification):
        return None
    mixed = exits.task.mix(exits.test[: len(weights)], weights.log())
    return float(exits.task.log_likelihood(mixed, exits.targets).exp().mean())


def _one_hot(position: int) -> Tensor:
    weights = torch.zeros(position + 1, dtype=torch.float64)
    weights[position] = 1.0
    return weights


def _network_record(way: DepthPredictor, space: Space) -> NetworkRecord:
    return NetworkRecord(
        architecture=space.architecture([str(way.blocks)]).to_dict(),
        seed=0,
        score=way.score,
        loss=way.loss,
        valid_score=way.valid_score,
        metrics=way.metrics,
        calibration=way.calibration,
        resampled=way.resampled,
    )


def _prior_in_words(run: Run) -> str:
    prior = run.settings.section(DepthSettings).prior
    if prior == "geometric":
        return f"geometric, ratio {run.settings.train.prior_ratio:g}"
    return prior if isinstance(prior, str) else "given"


@torch.no_grad()
def forward_seconds(networks: Mapping[str, nn.Module], inputs: Inputs, *, rounds: int = 15) -> dict[str, float]:
    """The median seconds of a forward pass of every network; passes are interleaved, so that noise hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in networks}
    for network in networks.values():
        network(inputs)  # the first pass takes longer
    for _ in range(rounds):
        for name, network in networks.items():
            started = time.perf_counter()
            network(inputs)
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in seconds.items()}
