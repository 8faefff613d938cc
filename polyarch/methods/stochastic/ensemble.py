"""After one network was trained under many architectures: which of them predict together, and what that is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from polyarch.data import Batches
from polyarch.estimators import shared_macs
from polyarch.methods.stochastic.corruption import MOST_IMAGES, corrupted_detection
from polyarch.nn.norm_policies import norm_layers
from polyarch.predictive import members_within, posterior_weights, stacked_weights
from polyarch.randomness import derive_seed, generator_at
from polyarch.ranking import norm_modes
from polyarch.results import Accuracy, EnsemblePoint, NormModesRecord, StochasticMember, StochasticRecord
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.comparison import Comparison, contender, train_all, trained_network
from polyarch.runs.judging import Ensemble, judge, outside_batches
from polyarch.runs.member_logits import MemberLogits
from polyarch.runs.parts import Parts
from polyarch.runs.retraining import Retraining
from polyarch.runs.run import Context
from polyarch.spaces import Architecture, residual_wiring
from polyarch.supernets import WiredSupernet
from polyarch.tables import published_notation

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
class Chosen:
    """The architectures that were looked at, the lowest validation loss first, and the ensemble out of them.

    Args:
        architectures: all of them.
        logits: theirs.
        members: the positions of those that may be in the ensemble.
        weights: their shares, 0 for those that are left out.
    """

    architectures: Sequence[Architecture]
    logits: MemberLogits
    members: Sequence[int]
    weights: Sequence[float]

    @property
    def kept(self) -> list[tuple[int, float]]:
        """Positions and shares of those in the ensemble."""
        return [pair for pair in zip(self.members, self.weights, strict=True) if pair[1]]


@dataclass(frozen=True)
class FoundEnsemble:
    """What came out of the training."""

    record: StochasticRecord
    comparison: Comparison


def judging_passes(parts: Parts) -> int:
    """About how many forward passes of one example it takes to choose, calibrate and measure."""
    settings = parts.settings.stochastic
    valid, test = len(parts.valid), len(parts.data.test)
    foreign = test if parts.settings.data.outside else 0
    members = min(settings.members, settings.architectures)
    return (
        min(settings.architectures, EVALUATED) * (valid + test)
        + (members + 1) * foreign  # the best alone, too
        + (valid + test + foreign)  # the network to compare with
        + 2 * min(settings.architectures, COMPARED) * min(valid, MOST_EXAMPLES)
        + 3 * members * MOST_IMAGES
    )


def choose_members(context: Context) -> Chosen:
    """Evaluates the architectures with running statistics, and weighs the best within limits and budget."""
    parts = context.parts
    drawn = parts.stochastic_architectures()[:EVALUATED]
    logits = MemberLogits.of(parts, partial(parts.net.eval().forward_many, architectures=drawn))
    order = sorted(range(len(drawn)), key=lambda member: logits.alone(member)["valid_loss"])
    logits, ordered = logits.at(order), [drawn[member] for member in order]
    allowed = [architecture for architecture in ordered if context.limits.allows(architecture)]
    if not allowed:
        raise context.limits.impossible()
    members = [ordered.index(architecture) for architecture in affordable(parts, allowed)]
    return Chosen(ordered, logits, members, _weights(parts, logits.at(members)))


def affordable(parts: Parts, ordered: Sequence[Architecture], most: int | None = None) -> list[Architecture]:
    """The first that the ensemble has room for, within its budget.

    Args:
        most: members; those of the settings by default.
    """
    chosen = parts.settings.stochastic
    most = most or chosen.members
    if chosen.max_macs is None:
        return list(ordered[:most])
    macs = shared_macs(parts.net, parts.network_shape)
    return members_within(ordered, lambda some: macs(some) if len(some) <= most else math.inf, chosen.max_macs)


def find_ensemble(context: Context, chosen: Chosen) -> FoundEnsemble:
    """Trains the network to compare with, calibrates, writes the artifacts and measures everything."""
    parts = context.parts
    kept = [chosen.architectures[position] for position, _ in chosen.kept]
    best = chosen.architectures[chosen.members[0]]
    what = "wiring" if isinstance(parts.net, WiredSupernet) else "architecture"
    name = f"ensemble of {len(kept)} {what}{'s' if len(kept) > 1 else ''}"
    shares = [share for _, share in chosen.kept]
    together = chosen.logits.at([position for position, _ in chosen.kept])
    networks = parts.net.extract_many(kept).eval()
    ensemble = Ensemble(name, kept, networks, shares, inherited=True, known=together)
    alone = parts.net.extract(best).eval()
    single = Ensemble.of(f"best {what}", [(best, alone)], inherited=True)
    single = replace(single, known=chosen.logits.at(chosen.members[:1]))
    baseline, baseline_runs = _baseline(context, best)
    sides = [(ensemble, context.workspace.ensemble), (single, context.workspace.artifact)]
    predictors = [*write_predictors(context, sides), judge(baseline, parts, outside_batches(parts))]
    members = [_accuracy(chosen.architectures[one], chosen.logits.alone(one)) for one in chosen.members]
    contenders = [
        contender(name, [_accuracy(best, together.measure(torch.tensor(shares, dtype=together.valid.dtype)))]),
        contender(f"best {what}, shared weights", members[:1]),
        contender(f"mean of {len(members)} {what}s, shared weights", members),
        contender(baseline.name, baseline_runs),
    ]
    summary = {
        "architecture": best.to_dict(),
        "accuracy": members[0].accuracy,
        "parameters": sum(parameter.numel() for parameter in alone.parameters()),
    }
    record = _record(parts, chosen, ensemble, predictors[0].temperature)
    return FoundEnsemble(record, Comparison(contenders, summary, predictors))


def _record(parts: Parts, chosen: Chosen, ensemble: Ensemble, temperature: float) -> StochasticRecord:
    settings, drawn = parts.settings.stochastic, parts.stochastic_architectures()
    macs = shared_macs(parts.net, parts.network_shape)
    return StochasticRecord(
        draws=settings.draws,
        own_weights=settings.own_weights,
        weighting=settings.weighting,
        drawn=len(drawn),
        evaluated=len(chosen.architectures),
        members=_members(chosen),
        curve=_curve(chosen.logits),
        statistics=_statistics(parts, drawn[:COMPARED]),
        corrupted=corrupted_detection(ensemble, parts, temperature),
        member_macs=macs([chosen.architectures[chosen.members[0]]]),
        ensemble_macs=macs(ensemble.architectures),
        max_macs=settings.max_macs,
        parameters=sum(parameter.numel() for parameter in ensemble.networks.parameters()),
        unlabelled=0 if parts.unlabelled is None else len(parts.unlabelled),
    )


def _weights(parts: Parts, logits: MemberLogits) -> list[float]:
    """The shares of all members by the validation examples; next to nothing is nothing."""
    count = len(logits.valid)
    match parts.settings.stochastic.weighting:
        case "uniform":
            found = torch.full((count,), 1 / count, dtype=torch.float64)
        case "posterior":
            found = posterior_weights(logits.valid, logits.valid_targets)
        case "stacked":
            found = stacked_weights(logits.valid, logits.valid_targets)
    found = torch.where(found < LEAST_SHARE, 0.0, found)
    shares: list[float] = (found / found.sum()).tolist()
    return shares


def _baseline(context: Context, best: Architecture) -> tuple[Ensemble, list[Accuracy]]:
    """The residual network or, in a space without one, the best architecture, trained alone with every seed."""
    parts = replace(context.parts, unlabelled=None)  # worker processes get no more than they need
    is_wired = isinstance(parts.net, WiredSupernet)
    architecture = residual_wiring(parts.net.space) if is_wired else best
    name = "residual network, trained alone" if is_wired else "best architecture, trained alone"
    task = Retraining(parts, context.workspace.checkpoints / "retrain")
    trained = train_all(context, [(architecture, seed) for seed in range(parts.settings.retrain.seeds)], task)
    runs = list(trained.values())
    seed = max(runs, key=lambda run: run.valid_accuracy).seed
    return Ensemble.of(name, [(architecture, trained_network(parts, (architecture, seed), task))]), runs


def _members(chosen: Chosen) -> list[StochasticMember]:
    names = ("valid_accuracy", "valid_loss", "accuracy", "loss")
    found = []
    for position, share in zip(chosen.members, chosen.weights, strict=True):
        architecture, measured = chosen.architectures[position], chosen.logits.alone(position)
        found.append(
            StochasticMember(
                architecture=architecture.to_dict(),
                notation=published_notation(architecture),
                weight=share,
                **{name: measured[name] for name in names},
            )
        )
    return found


def _curve(logits: MemberLogits) -> list[EnsemblePoint]:
    """Of the first 1, 2, ... architectures together."""
    names = ("accuracy", "loss", "calibration_error")
    found = []
    for count in range(1, len(logits.valid) + 1):
        measured = logits.measure(torch.full((count,), 1 / count, dtype=logits.valid.dtype))
        found.append(EnsemblePoint(members=count, **{name: measured[name] for name in names}))
    return found


def _statistics(parts: Parts, architectures: Sequence[Architecture]) -> NormModesRecord | None:
    """Architectures with batch and with running statistics, where the network has any."""
    if len(architectures) < FEWEST_COMPARED or next(norm_layers(parts.net), None) is None:
        return None
    # Shuffled batches are whole, and as large as in training: batch statistics depend on it.
    rows = torch.randperm(len(parts.valid), generator=generator_at(parts.settings.seed, "statistics", 0))
    batches = Batches(
        parts.valid.subset(rows[:MOST_EXAMPLES]),
        parts.settings.train.batch_size,
        seed=derive_seed(parts.settings.seed, "batches", "statistics"),
        preprocessing=parts.preprocessing,
        device=parts.settings.device,
    )
    found = norm_modes(parts.net, architectures, batches)
    return NormModesRecord(batch=list(found.batch), running=list(found.running), spearman=found.spearman)


def _accuracy(architecture: Architecture, measured: dict[str, float]) -> Accuracy:
    return Accuracy(
        architecture=architecture.to_dict(),
        seed=0,
        **{name: measured[name] for name in ("accuracy", "loss", "calibration_error", "valid_accuracy")},
    )
