"""After a posterior over channels was learned: draws from it, the best of them, and what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from polyarch.data import Examples
from polyarch.distributions import DepthAndChannels
from polyarch.methods.posterior_guided.strategy import gated
from polyarch.randomness import generator_at
from polyarch.results import Accuracy, Contender, GatedLayer, GuidedDraw, GuidedRecord, PredictorRecord
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.comparison import Comparison, contender, train_all, trained_network
from polyarch.runs.description import masks
from polyarch.runs.journal import run_missing
from polyarch.runs.judging import Ensemble, judge, outside_batches
from polyarch.runs.member_logits import MemberLogits
from polyarch.runs.parts import Parts
from polyarch.runs.retraining import Retraining, evaluate
from polyarch.runs.run import Context
from polyarch.runs.training import fit_supernet, shown
from polyarch.searchers import Candidate, CandidateScoring, LimitedDraws, best_candidate
from polyarch.searchers.limited_draws import Posterior
from polyarch.spaces import Architecture
from polyarch.strategies import PosteriorGuided
from polyarch.supernets import GatedSupernet

SHARE_OF_TIME = 0.7
"""Of a limited time; when it is over, no more candidates are drawn."""
MOST_JUDGED = 2000
"""Validation examples for a candidate; more would cost more than they tell."""
WAVE = 8
"""Candidates per worker between two looks at the clock."""

BEST, FURTHER = "best draw", "best draw, trained further"
RANDOM = "random draws, one rate"
WHOLE, ALONE = "whole network, weights of the search", "whole network, trained alone"


@dataclass(frozen=True)
class Learned:
    """A trained network with gates, what was learned about them, and what was measured on the way."""

    net: GatedSupernet
    posterior: Posterior
    history: list[dict[str, float]]


@dataclass(frozen=True)
class Drawn:
    """Draws from the posterior and at one rate, judged on validation examples; each list in order of positions.

    Args:
        strength: how much draws from the posterior favour small networks.
    """

    net: GatedSupernet
    strength: float
    guided: Sequence[Candidate]
    random: Sequence[Candidate]

    @property
    def best(self) -> Architecture:
        """Of the draws from the posterior."""
        return self.net.parse(best_candidate(self.guided).notation)

    def members(self, count: int) -> list[Architecture]:
        """The first draws from the posterior, as far as they were judged."""
        return [self.net.parse(candidate.notation) for candidate in self.guided[:count]]


@dataclass(frozen=True)
class FoundDraw:
    """What came out of the search."""

    record: GuidedRecord
    comparison: Comparison


def learn_posterior(context: Context) -> Learned:
    """Trains kernels and drop probabilities, or goes on with them."""
    with shown(context) as callbacks:
        strategy, history = fit_supernet(context.parts, context.workspace.store("train"), callbacks, context.stop)
    assert isinstance(strategy, PosteriorGuided)
    return Learned(strategy.net, strategy.posterior, history.rows)


def draw_candidates(context: Context, learned: Learned) -> Drawn:
    """Draws networks within the limits and judges them as they are, in worker processes."""
    parts, settings = context.parts, context.parts.settings
    draws = posterior_draws(context, learned.posterior)
    scoring = CandidateScoring(learned.net.eval(), draws, parts.evaluation_batches(judging_examples(parts)))
    counts = {"guided": settings.guided.candidates, "random": settings.guided.random_candidates}
    # Side by side, so that a limit on the time leaves some of both.
    order = sorted((position / count, kind, position) for kind, count in counts.items() for position in range(count))
    items = {f"{kind} {position}": (kind, position) for _, kind, position in order}
    with context.display.stage("draw") as report, context.stop.at_once(), parts.executor().open(scoring) as score:
        records = run_missing(
            items,
            context.workspace.journal("candidates"),
            score,
            asdict,
            report,
            wave=WAVE * settings.workers,
            seconds_left=lambda: context.seconds_left(SHARE_OF_TIME),
        )
    found: dict[str, list[Candidate]] = {kind: [] for kind in counts}
    for key, record in records.items():
        found[items[key][0]].append(Candidate(**record))
    return Drawn(learned.net, draws["guided"].strength, found["guided"], found["random"])


def judging_examples(parts: Parts) -> Examples:
    """The validation examples that candidates are judged on: all, or some at random where there are many."""
    rows = torch.randperm(len(parts.valid), generator=generator_at(parts.settings.seed, "judging", 0))
    return parts.valid if len(rows) <= MOST_JUDGED else parts.valid.subset(rows[:MOST_JUDGED])


def posterior_draws(context: Context, posterior: Posterior) -> dict[str, LimitedDraws]:
    """Draws from the posterior, and at one rate for all slices with the same expected number of kept ones."""
    net, seed = gated(context.parts.net, context.parts.settings), context.parts.settings.seed
    guided = LimitedDraws(net, posterior, context.limits, seed=seed, stream="guided")
    flat = guided.distribution.flat()
    return {"guided": guided, "random": LimitedDraws(net, flat, context.limits, seed=seed, stream="random")}


def compare_draws(context: Context, learned: Learned, drawn: Drawn) -> FoundDraw:
    """Trains the best draw further and the whole network alone, calibrates, writes artifacts and measures all of it."""
    parts, settings = context.parts, context.parts.settings.guided
    best = drawn.best
    network = learned.net.extract(best).eval()
    exported, contenders = Ensemble.of(BEST, [(best, network)], inherited=True), [_measured(BEST, parts, best, network)]
    if settings.tune_epochs:
        tuned, runs = _trained_further(context, best)
        contenders.append(contender(FURTHER, [_compact(learned.net, best, run) for run in runs]))
        if runs[0].valid_accuracy >= contenders[0].runs[0].valid_accuracy:
            exported = Ensemble.of(FURTHER, [(best, tuned)], inherited=True)
    mixture = _mixture(parts, learned.net, drawn.members(settings.members))
    contenders.append(_of_mixture(learned.net, mixture))
    if drawn.random:
        random = learned.net.parse(best_candidate(drawn.random).notation)
        contenders.append(_measured(RANDOM, parts, random, learned.net.extract(random).eval()))
    whole = learned.net.whole()
    contenders.append(_measured(WHOLE, parts, whole, learned.net.extract(whole).eval()))
    alone, runs = _alone(context, whole)
    contenders.append(contender(ALONE, [_compact(learned.net, whole, run) for run in runs]))
    sides = [(exported, context.workspace.artifact), (mixture, context.workspace.posterior)]
    judged = [*write_predictors(context, sides), judge(alone, parts, outside_batches(parts))]
    ensembles = (exported, mixture, alone)
    predictors = [_briefly(learned.net, *pair) for pair in zip(judged, ensembles, strict=True)]
    summary = {
        "architecture": masks(learned.net, best),
        "accuracy": predictors[0].accuracy,
        "parameters": learned.net.cost(best).parameters,
    }
    return FoundDraw(record_of(context, learned, drawn), Comparison(contenders, summary, predictors))


def record_of(context: Context, learned: Learned, drawn: Drawn) -> GuidedRecord:
    """What was learned, drawn and kept, in numbers."""
    net, posterior, settings = learned.net, learned.posterior, context.parts.settings
    depths: list[float] = []
    depth = None
    if isinstance(posterior, DepthAndChannels):
        channels, depth = posterior.channels, drawn.best["depth"]
        depths = posterior.depth.log_probabilities().detach().exp().tolist()
    else:
        channels = posterior
    drop = dict(zip(channels.groups, channels.drop.tolist(), strict=True))
    whole, kept = net.cost(net.whole()), masks(net, drawn.best)
    chosen = settings.guided
    return GuidedRecord(
        length_scale=chosen.length_scale,
        temperature=chosen.temperature,
        initial_drop=chosen.drop,
        constant_decay=chosen.constant_decay,
        keep_rate=posterior.keep_rate,
        layers=[
            GatedLayer(name=gate.name, group=gate.group, side=gate.side, drop=drop[gate.group], kept=kept[gate.name])
            for gate in net.gates
        ],
        guided=[_draw_record(one) for one in drawn.guided],
        random=[_draw_record(one) for one in drawn.random],
        best=best_candidate(drawn.guided).position,
        full_parameters=whole.parameters,
        full_macs=whole.macs,
        strength=drawn.strength,
        max_params=settings.search.max_params,
        max_macs=settings.search.max_macs,
        members=len(drawn.members(chosen.members)),
        depths=depths,
        best_depth=depth,
    )


def _draw_record(candidate: Candidate) -> GuidedDraw:
    return GuidedDraw(**{name: value for name, value in asdict(candidate).items() if name != "notation"})


def judging_passes(parts: Parts) -> int:
    """About how many forward passes of one example it takes to calibrate and measure, besides judging candidates."""
    valid, test = len(parts.valid), len(parts.data.test)
    foreign = test if parts.settings.data.outside else 0
    networks = parts.settings.guided.members + 4
    return networks * (valid + test) + (networks - 2) * foreign


def _measured(name: str, parts: Parts, architecture: Architecture, network: nn.Module) -> Contender:
    valid = evaluate(network, parts.evaluation_batches(parts.valid))
    test = evaluate(network, parts.evaluation_batches(parts.data.test))
    net = gated(parts.net, parts.settings)
    run = Accuracy(architecture=masks(net, architecture), seed=0, valid_accuracy=valid["accuracy"], **test)
    return contender(name, [run])


def _trained_further(context: Context, best: Architecture) -> tuple[nn.Module, list[Accuracy]]:
    """The best draw with the weights that it came with, trained for a few more epochs."""
    parts, chosen = context.parts, context.parts.settings.guided
    change = {"epochs": chosen.tune_epochs, "learning_rate": chosen.tune_learning_rate, "warmup_epochs": 0.0}
    retrain = parts.settings.retrain.model_copy(update=change)
    parts = replace(parts, settings=parts.settings.model_copy(update={"retrain": retrain}))
    task = Retraining(parts, context.workspace.checkpoints / "tune", inherited=True)
    trained = train_all(context, [(best, 0)], task, stage="tune")
    return trained_network(parts, (best, 0), task), list(trained.values())


def _alone(context: Context, whole: Architecture) -> tuple[Ensemble, list[Accuracy]]:
    """The network without gates, trained from scratch with every seed."""
    parts = context.parts
    task = Retraining(parts, context.workspace.checkpoints / "retrain")
    runs = list(train_all(context, [(whole, seed) for seed in range(parts.settings.retrain.seeds)], task).values())
    seed = max(runs, key=lambda run: run.valid_accuracy).seed
    return Ensemble.of(ALONE, [(whole, trained_network(parts, (whole, seed), task))]), runs


def _mixture(parts: Parts, net: GatedSupernet, members: Sequence[Architecture]) -> Ensemble:
    networks = net.extract_many(members).eval()
    name = f"mixture of {len(members)} draws"
    known = MemberLogits.of(parts, networks)
    return Ensemble(name, members, networks, [1 / len(members)] * len(members), inherited=True, known=known)


def _of_mixture(net: GatedSupernet, mixture: Ensemble) -> Contender:
    assert mixture.known is not None
    measured = mixture.known.measure(torch.tensor(mixture.weights, dtype=mixture.known.valid.dtype))
    names = ("accuracy", "loss", "calibration_error", "valid_accuracy")
    values: dict[str, Any] = {name: measured[name] for name in names}
    return contender(mixture.name, [Accuracy(architecture=masks(net, mixture.architectures[0]), seed=0, **values)])


def _compact(net: GatedSupernet, architecture: Architecture, run: Accuracy) -> Accuracy:
    return run.model_copy(update={"architecture": masks(net, architecture)})


def _briefly(net: GatedSupernet, record: PredictorRecord, ensemble: Ensemble) -> PredictorRecord:
    """A record that does not list every slice of every member."""
    return record.model_copy(update={"members": [masks(net, one) for one in ensemble.architectures]})
