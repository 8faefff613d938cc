"""After one network was trained under many architectures: which of them predict together, and what that is worth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from polyarch.data import BatchSource, TensorData
from polyarch.estimators import shared_macs
from polyarch.methods.stochastic.record import EnsemblePoint, NormModesRecord, StochasticMember, StochasticRecord
from polyarch.methods.stochastic.settings import StochasticSettings
from polyarch.methods.stochastic.strategy import drawn_architectures
from polyarch.nn.norm_policies import norm_layers
from polyarch.predictive import corrupt, members_within, posterior_weights, stacked_weights
from polyarch.randomness import generator_at
from polyarch.ranking import norm_modes
from polyarch.results import NetworkRecord, Role
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.comparison import contender, parameter_count
from polyarch.runs.judging import Ensemble, MemberOutputs, judge, ood_batches, told_apart
from polyarch.runs.retraining import Retraining, train_all, trained_network
from polyarch.runs.run import Run
from polyarch.runs.stage import Outcome
from polyarch.spaces import Architecture, residual_wiring
from polyarch.supernets import WiredSupernet
from polyarch.tables import published_notation
from polyarch.tasks import Classification

EVALUATED = 50
"""Of more architectures only the first are looked at."""

COMPARED = 20
"""So many are judged with batch and with running statistics."""
FEWEST_COMPARED = 3
MOST_EXAMPLES = 1000
"""Validation examples that this takes at most."""

LEAST_SHARE = 1e-3
"""Members with less are left out: they would cost a pass and say nothing."""


@dataclass(frozen=True)
class ChosenMembers:
    """The architectures that were looked at, the lowest validation loss first, and the ensemble out of them.

    Args:
        architectures: all of them.
        outputs: theirs.
        members: the positions of those that may be in the ensemble.
        weights: their shares, 0 for those that are left out.
    """

    architectures: Sequence[Architecture]
    outputs: MemberOutputs
    members: Sequence[int]
    weights: Sequence[float]

    @property
    def kept(self) -> list[tuple[int, float]]:
        """Positions and shares of those in the ensemble."""
        return [pair for pair in zip(self.members, self.weights, strict=True) if pair[1]]


def judging_passes(run: Run) -> int:
    """About how many forward passes of one example it takes to choose, calibrate and measure."""
    settings = run.settings.section(StochasticSettings)
    valid, test = len(run.feed.valid), len(run.feed.data.test)
    foreign = test if run.settings.data.ood else 0
    members = min(settings.members, settings.architectures)
    return (
        min(settings.architectures, EVALUATED) * (valid + test)
        + (members + 1) * foreign  # the best alone, too
        + (valid + test + foreign)  # the network to compare with
        + 2 * min(settings.architectures, COMPARED) * min(valid, MOST_EXAMPLES)
        + 3 * members * MOST_IMAGES
    )


def choose_members(run: Run) -> ChosenMembers:
    """Evaluates the architectures with running statistics, and weighs the best within limits and budget."""
    drawn = drawn_architectures(run)[:EVALUATED]
    outputs = MemberOutputs.of(run, partial(run.net.eval().forward_many, architectures=drawn))
    order = sorted(range(len(drawn)), key=lambda member: outputs.alone(member)["valid_loss"])
    outputs, ordered = outputs.at(order), [drawn[member] for member in order]
    allowed = [architecture for architecture in ordered if run.limits.allows(architecture)]
    if not allowed:
        raise run.limits.impossible()
    members = [ordered.index(architecture) for architecture in affordable(run, allowed)]
    return ChosenMembers(ordered, outputs, members, _weights(run, outputs.at(members)))


def affordable(run: Run, ordered: Sequence[Architecture], most: int | None = None) -> list[Architecture]:
    """The first that the ensemble has room for, within its budget.

    Args:
        most: members; those of the settings by default.
    """
    chosen = run.settings.section(StochasticSettings)
    most = most or chosen.members
    if chosen.max_macs is None:
        return list(ordered[:most])
    macs = shared_macs(run.net, run.feed.example.inputs)
    return members_within(ordered, lambda some: macs(some) if len(some) <= most else math.inf, chosen.max_macs)


def find_ensemble(run: Run, outcome: Outcome, chosen: ChosenMembers) -> None:
    """Trains the network to compare with, calibrates, writes the artifacts and measures everything."""
    kept = [chosen.architectures[position] for position, _ in chosen.kept]
    best = chosen.architectures[chosen.members[0]]
    what = "wiring" if isinstance(run.net, WiredSupernet) else "architecture"
    name = f"ensemble of {len(kept)} {what}{'s' if len(kept) > 1 else ''}"
    shares = [share for _, share in chosen.kept]
    together = chosen.outputs.at([position for position, _ in chosen.kept])
    networks = run.net.extract_many(kept).eval()
    ensemble = Ensemble(name, kept, networks, shares, inherited=True, known=together)
    alone = run.net.extract(best).eval()
    single = Ensemble.of(f"best {what}", [(best, alone)], inherited=True)
    single = replace(single, known=chosen.outputs.at(chosen.members[:1]))
    baseline, baseline_runs = _baseline(run, best)
    sides = [(ensemble, run.workspace.ensemble), (single, run.workspace.artifact)]
    outcome.predictors = [*write_predictors(run, sides), judge(baseline, run, ood_batches(run))[0]]
    outcome.default = run.workspace.ensemble.name
    members = [
        _network_record(chosen.architectures[one], chosen.outputs.alone(one, names=None)) for one in chosen.members
    ]
    mixed = _network_record(best, together.measure(torch.tensor(shares, dtype=together.valid.dtype), names=None))
    outcome.comparison = [
        contender(name, Role.MIXTURE, [mixed]),
        contender(f"best {what}, shared weights", Role.BEST, members[:1]),
        contender(f"mean of {len(members)} {what}s, shared weights", Role.OTHER, members),
        contender(baseline.name, Role.BASELINE, baseline_runs),
    ]
    outcome.artifact = {"architecture": best.to_dict(), "score": members[0].score, "parameters": parameter_count(alone)}
    outcome.record = _record(run, chosen, ensemble, outcome.predictors[0].temperature)


def _record(run: Run, chosen: ChosenMembers, ensemble: Ensemble, temperature: float) -> StochasticRecord:
    settings, drawn = run.settings.section(StochasticSettings), drawn_architectures(run)
    macs = shared_macs(run.net, run.feed.example.inputs)
    return StochasticRecord(
        draws=settings.draws,
        own_weights=settings.own_weights,
        weighting=settings.weighting,
        drawn=len(drawn),
        evaluated=len(chosen.architectures),
        members=_members(chosen),
        curve=_curve(chosen.outputs),
        statistics=_statistics(run, drawn[:COMPARED]),
        corrupted=corrupted_detection(ensemble, run, temperature),
        member_macs=macs([chosen.architectures[chosen.members[0]]]),
        ensemble_macs=macs(ensemble.architectures),
        max_macs=settings.max_macs,
        parameters=parameter_count(ensemble.networks),
        unlabelled=0 if run.feed.unlabelled is None else len(run.feed.unlabelled),
    )


def _weights(run: Run, outputs: MemberOutputs) -> list[float]:
    """The shares of all members by the validation examples; next to nothing is nothing."""
    count = len(outputs.valid)
    match run.settings.section(StochasticSettings).weighting:
        case "uniform":
            found = torch.full((count,), 1 / count, dtype=torch.float64)
        case "posterior":
            found = posterior_weights(outputs.valid, outputs.valid_targets, log_likelihood=run.task.log_likelihood)
        case "stacked":
            found = stacked_weights(outputs.valid, outputs.valid_targets, log_likelihood=run.task.log_likelihood)
    found = torch.where(found < LEAST_SHARE, 0.0, found)
    shares: list[float] = (found / found.sum()).tolist()
    return shares


def _baseline(run: Run, best: Architecture) -> tuple[Ensemble, list[NetworkRecord]]:
    """The residual network or, in a space without one, the best architecture, trained alone with every seed."""
    run = replace(run, feed=replace(run.feed, unlabelled=None))  # worker processes get no more than they need
    is_wired = isinstance(run.net, WiredSupernet)
    architecture = residual_wiring(run.net.space) if is_wired else best
    name = "residual network, trained alone" if is_wired else "best architecture, trained alone"
    task = Retraining(run, run.workspace.checkpoints / "retrain")
    trained = train_all(run, [(architecture, seed) for seed in range(run.settings.retrain.seeds)], task)
    runs = list(trained.values())
    seed = run.task.selection.best(runs, lambda one: one.valid_score).seed
    return Ensemble.of(name, [(architecture, trained_network(task, (architecture, seed)))]), runs


def _members(chosen: ChosenMembers) -> list[StochasticMember]:
    names = ("valid_score", "valid_loss", "score", "loss")
    found = []
    for position, share in zip(chosen.members, chosen.weights, strict=True):
        architecture, measured = chosen.architectures[position], chosen.outputs.alone(position)
        found.append(
            StochasticMember(
                architecture=architecture.to_dict(),
                notation=published_notation(architecture),
                weight=share,
                **{name: measured[name] for name in names},
            )
        )
    return found


def _curve(outputs: MemberOutputs) -> list[EnsemblePoint]:
    """Of the first 1, 2, ... architectures together."""
    further = [metric.name for metric in outputs.task.metrics if metric.name == "calibration_error"]
    found = []
    for count in range(1, len(outputs.valid) + 1):
        weights = torch.full((count,), 1 / count, dtype=outputs.valid.dtype)
        measured = outputs.measure(weights, names=further)
        noise = measured.get("calibration") or {}
        found.append(
            EnsemblePoint(
                members=count,
                score=measured["score"],
                loss=measured["loss"],
                **{f"calibration_{name}": value for name, value in noise.items()},
            )
        )
    return found


def _statistics(run: Run, architectures: Sequence[Architecture]) -> NormModesRecord | None:
    """Architectures with batch and with running statistics, where the network has any."""
    if len(architectures) < FEWEST_COMPARED or next(norm_layers(run.net), None) is None:
        return None
    # Shuffled batches are whole, and as large as in training: batch statistics depend on it.
    rows = torch.randperm(len(run.feed.valid), generator=generator_at(run.settings.seed, "statistics", 0))
    some = run.feed.valid.subset(rows[:MOST_EXAMPLES])
    batches = run.feed.batches(some, run.settings.train.batch_size, stream="statistics", augmented=False)
    found = norm_modes(run.net, architectures, batches, task=run.task)
    return NormModesRecord(batch=list(found.batch), running=list(found.running), spearman=found.spearman)


def _network_record(architecture: Architecture, measured: dict[str, Any]) -> NetworkRecord:
    values = {name: value for name, value in measured.items() if name != "valid_loss"}
    return NetworkRecord(architecture=architecture.to_dict(), seed=0, **values)


KINDS = ("gaussian_noise", "gaussian_blur")
SEVERITY = 3
MOST_IMAGES = 1000


def corrupted_detection(ensemble: Ensemble, run: Run, temperature: float) -> dict[str, dict[str, dict[str, float]]]:
    """Kind of corruption -> score -> how well it tells the copies from up to a thousand test images.

    Empty for examples that are no images, or whose values are not those of pixels, and where no classes are predicted.
    """
    if not run.feed.data.is_image or not isinstance(run.task, Classification):
        return {}
    seed, test = run.settings.seed, run.feed.data.test
    rows = torch.randperm(len(test), generator=generator_at(seed, "corrupted", 0))[:MOST_IMAGES]
    (images,) = test.stream([rows])
    if images.is_floating_point() and not ((images >= 0) & (images <= 1)).all():
        return {}
    known, _ = ensemble.outputs(_batches(images, run))
    found = {}
    for kind in KINDS:
        copies = corrupt(images, kind, SEVERITY, generator=generator_at(seed, kind, 0))
        foreign, _ = ensemble.outputs(_batches(copies, run))
        found[kind] = told_apart(run.task, ensemble, known, foreign, temperature)
    return found


def _batches(images: Tensor, run: Run) -> BatchSource:
    return run.feed.in_order(TensorData(images, torch.zeros(len(images), dtype=torch.int64), 1))
