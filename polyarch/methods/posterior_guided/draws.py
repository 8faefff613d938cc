"""After a posterior over channels was learned: draws from it, the best of them, and what it is worth."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch import nn

from polyarch.data import Examples
from polyarch.distributions import DepthAndChannels
from polyarch.methods.posterior_guided.record import DRAWN, FURTHER, UNIFORM, GatedLayer, GuidedDraw, GuidedRecord
from polyarch.methods.posterior_guided.settings import GuidedSettings
from polyarch.methods.posterior_guided.strategy import gated, masks
from polyarch.randomness import generator_at
from polyarch.results import NetworkRecord, Role
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.comparison import contender, measured
from polyarch.runs.judging import Ensemble, MemberOutputs, judge, ood_batches
from polyarch.runs.retraining import Retraining, train_all, trained_network
from polyarch.runs.run import Run
from polyarch.runs.stage import Outcome
from polyarch.runs.training import fit_supernet, shown
from polyarch.runs.workspace import run_missing
from polyarch.searchers import DrawScoring, JudgedDraw, LimitedDraws, best_draw
from polyarch.searchers.limited_draws import Posterior
from polyarch.spaces import Architecture
from polyarch.strategies import PosteriorGuided
from polyarch.supernets import GatedSupernet, uniform_width

SHARE_OF_TIME = 0.7
"""Of a limited time; when it is over, no more candidates are drawn."""
MOST_JUDGED = 2000
"""Validation examples for a candidate; more would cost more than they tell."""
WAVE = 8
"""Candidates per worker between two looks at the clock."""

RANDOM = "random draws, one rate"
WHOLE, ALONE = "whole network, weights of the search", "whole network, trained alone"


@dataclass(frozen=True)
class LearnedPosterior:
    """A trained network with gates, what was learned about them, and what was measured on the way."""

    net: GatedSupernet
    posterior: Posterior
    history: list[dict[str, float]]


@dataclass(frozen=True)
class DrawnCandidates:
    """Draws from the posterior and at one rate, judged on validation examples; each list in order of positions.

    Args:
        strength: how much draws from the posterior favour small networks.
    """

    net: GatedSupernet
    strength: float
    guided: Sequence[JudgedDraw]
    random: Sequence[JudgedDraw]

    @property
    def best(self) -> Architecture:
        """Of the draws from the posterior."""
        return self.net.parse(best_draw(self.guided).notation)

    def members(self, count: int) -> list[Architecture]:
        """The first draws from the posterior, as far as they were judged."""
        return [self.net.parse(candidate.notation) for candidate in self.guided[:count]]


def learn_posterior(run: Run) -> LearnedPosterior:
    """Trains kernels and drop probabilities, or resumes their training."""
    with shown(run) as callbacks:
        training, history = fit_supernet(run, run.workspace.store("train"), callbacks, run.stop)
    assert isinstance(training.strategy, PosteriorGuided)
    return LearnedPosterior(training.strategy.net, training.strategy.posterior, history.rows)


def draw_candidates(run: Run, learned: LearnedPosterior) -> DrawnCandidates:
    """Draws networks within the limits and judges them as they are, in worker processes."""
    settings = run.settings.section(GuidedSettings)
    draws = posterior_draws(run, learned.posterior)
    scoring = DrawScoring(learned.net.eval(), draws, run.feed.in_order(judging_examples(run)), run.task)
    counts = {"guided": settings.candidates, "random": settings.random_candidates}
    # Side by side, so that a limit on the time leaves some of both.
    order = sorted((position / count, kind, position) for kind, count in counts.items() for position in range(count))
    items = {f"{kind} {position}": (kind, position) for _, kind, position in order}
    with run.display.stage("draw") as report, run.stop.at_once(), run.executor().open(scoring) as score:
        records = run_missing(
            items,
            run.workspace.journal("candidates"),
            score,
            asdict,
            report,
            wave=WAVE * run.settings.workers,
            seconds_left=lambda: run.seconds_left(SHARE_OF_TIME),
        )
    found: dict[str, list[JudgedDraw]] = {kind: [] for kind in counts}
    for key, record in records.items():
        # Journals of polyarch 0.8 and earlier call the score an accuracy.
        values = {"score" if name == "accuracy" else name: value for name, value in record.items()}
        found[items[key][0]].append(JudgedDraw(**values))
    return DrawnCandidates(learned.net, draws["guided"].strength, found["guided"], found["random"])


def judging_examples(run: Run) -> Examples:
    """The validation examples that candidates are judged on: all, or some at random where there are many."""
    rows = torch.randperm(len(run.feed.valid), generator=generator_at(run.settings.seed, "judging", 0))
    return run.feed.valid if len(rows) <= MOST_JUDGED else run.feed.valid.subset(rows[:MOST_JUDGED])


def posterior_draws(run: Run, posterior: Posterior) -> dict[str, LimitedDraws]:
    """Draws from the posterior, and at one rate for all slices with the same expected number of kept ones."""
    net, seed = gated(run), run.settings.seed
    guided = LimitedDraws(net, posterior, run.limits, seed=seed, stream="guided")
    flat = guided.distribution.flat()
    return {"guided": guided, "random": LimitedDraws(net, flat, run.limits, seed=seed, stream="random")}


def compare_draws(run: Run, outcome: Outcome, learned: LearnedPosterior, drawn: DrawnCandidates) -> None:
    """Trains the best draw further and the whole network alone, calibrates, writes artifacts and measures all of it."""
    net, settings, best = learned.net, run.settings.section(GuidedSettings), drawn.best
    network = net.extract(best).eval()
    as_drawn = _measured(run, net, best, network)
    sides = {DRAWN: (Ensemble.of(DRAWN, [(best, network)], inherited=True), [as_drawn])}
    if settings.tune_epochs:
        tuned, runs = _trained_further(run, best)
        sides[FURTHER] = Ensemble.of(FURTHER, [(best, tuned)], inherited=True), [_brief(net, best, one) for one in runs]
    tuned_score = sides[FURTHER][1][0].valid_score if FURTHER in sides else None
    improves = tuned_score is not None and run.task.selection.gain(tuned_score, as_drawn.valid_score) >= 0
    chosen = FURTHER if improves else DRAWN
    contenders = [
        contender(name, Role.BEST if name == chosen else Role.OTHER, runs) for name, (_, runs) in sides.items()
    ]
    mixture = _mixture(run, net, drawn.members(settings.members))
    contenders.append(contender(mixture.name, Role.MIXTURE, [_of_mixture(net, mixture)]))
    if drawn.random:
        random = net.parse(best_draw(drawn.random).notation)
        contenders.append(contender(RANDOM, Role.RANDOM, [_measured(run, net, random, net.extract(random).eval())]))
    whole = net.whole()
    contenders.append(contender(WHOLE, Role.INHERITED, [_measured(run, net, whole, net.extract(whole).eval())]))
    alone, runs = _alone(run, whole)
    contenders.append(contender(ALONE, Role.BASELINE, [_brief(net, whole, one) for one in runs]))
    uniform = uniform_width(net, net.cost(best).macs, like=best)
    if narrow := _narrow(run, uniform.architecture):
        contenders.append(contender(UNIFORM, Role.OTHER, [_brief(net, uniform.architecture, one) for one in narrow]))
    exported = replace(sides[chosen][0], known=MemberOutputs.of(run, sides[chosen][0].networks))
    folders = [(exported, run.workspace.artifact), (mixture, run.workspace.posterior)]
    judged = [*write_predictors(run, folders), judge(alone, run, ood_batches(run))[0]]
    outcome.comparison = contenders
    _choose_default(run, outcome, exported, mixture)
    outcome.predictors = [
        # Not every slice of every member.
        record.model_copy(update={"members": [masks(net, one) for one in ensemble.architectures]})
        for record, ensemble in zip(judged, (exported, mixture, alone), strict=True)
    ]
    outcome.artifact = {
        "architecture": masks(net, best),
        "score": outcome.predictors[0].score,
        "parameters": net.cost(best).parameters,
    }
    outcome.record = record_of(run, learned, drawn, uniform.width if narrow else None)


def _choose_default(run: Run, outcome: Outcome, exported: Ensemble, mixture: Ensemble) -> None:
    """Whichever predicts validation examples better: the mixture, or one draw, which may have been trained further."""
    losses: dict[str, float] = {}
    for one in (mixture, exported):
        assert one.known is not None
        losses[one.name] = one.known.measure(torch.tensor(one.weights, dtype=one.known.valid.dtype))["valid_loss"]
    is_mixture = losses[mixture.name] <= losses[exported.name]
    outcome.default = (run.workspace.posterior if is_mixture else run.workspace.artifact).name
    chosen, other = sorted(losses, key=lambda name: losses[name])
    outcome.decisions.append(
        f"default predictor: the {chosen}, with a mean validation loss of {losses[chosen]:.3f} nats against "
        f"{losses[other]:.3f} of the {other}"
    )


def record_of(run: Run, learned: LearnedPosterior, drawn: DrawnCandidates, uniform: float | None) -> GuidedRecord:
    """What was learned, drawn and kept, in numbers; ``uniform`` is the width of the plain narrow network."""
    net, posterior, settings = learned.net, learned.posterior, run.settings
    depths: list[float] = []
    depth = None
    if isinstance(posterior, DepthAndChannels):
        channels, depth = posterior.channels, drawn.best["depth"]
        depths = posterior.depth.log_probabilities().detach().exp().tolist()
    else:
        channels = posterior
    drop = dict(zip(channels.groups, channels.drop.tolist(), strict=True))
    whole, kept = net.cost(net.whole()), masks(net, drawn.best)
    chosen = settings.section(GuidedSettings)
    return GuidedRecord(
        length_scale=chosen.length_scale,
        prior_examples=chosen.prior_examples,
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
        best=best_draw(drawn.guided).position,
        full_parameters=whole.parameters,
        full_macs=whole.macs,
        strength=drawn.strength,
        max_params=settings.search.max_params,
        max_macs=settings.search.max_macs,
        members=len(drawn.members(chosen.members)),
        uniform_width=uniform,
        depths=depths,
        best_depth=depth,
    )


def _draw_record(candidate: JudgedDraw) -> GuidedDraw:
    return GuidedDraw(**{name: value for name, value in asdict(candidate).items() if name != "notation"})


def judging_passes(run: Run) -> int:
    """About how many forward passes of one example it takes to calibrate and measure, besides judging candidates."""
    valid, test = len(run.feed.valid), len(run.feed.data.test)
    foreign = test if run.settings.data.ood else 0
    networks = run.settings.section(GuidedSettings).members + 4
    return networks * (valid + test) + (networks - 2) * foreign


def _measured(run: Run, net: GatedSupernet, architecture: Architecture, network: nn.Module) -> NetworkRecord:
    return _brief(net, architecture, measured(run, architecture, network))


def _brief(net: GatedSupernet, architecture: Architecture, found: NetworkRecord) -> NetworkRecord:
    return found.model_copy(update={"architecture": masks(net, architecture)})


def _trained_further(run: Run, best: Architecture) -> tuple[nn.Module, list[NetworkRecord]]:
    """The best draw with the weights that it came with, trained for a few more epochs."""
    chosen = run.settings.section(GuidedSettings)
    change = {"epochs": chosen.tune_epochs, "learning_rate": chosen.tune_learning_rate, "warmup_epochs": 0.0}
    run = replace(run, settings=run.settings.changed({"retrain": change}))
    task = Retraining(run, run.workspace.checkpoints / "tune", inherited=True, teacher=_teacher(run))
    trained = train_all(run, [(best, 0)], task, stage="tune")
    return trained_network(task, (best, 0)), list(trained.values())


def _teacher(run: Run) -> Architecture | None:
    """The whole network, if it is distilled."""
    return gated(run).whole() if run.settings.section(GuidedSettings).distillation else None


def _alone(run: Run, whole: Architecture) -> tuple[Ensemble, list[NetworkRecord]]:
    """The network without gates, trained from scratch with every seed."""
    task = Retraining(run, run.workspace.checkpoints / "retrain")
    runs = list(train_all(run, [(whole, seed) for seed in range(run.settings.retrain.seeds)], task).values())
    seed = run.task.selection.best(runs, lambda one: one.valid_score).seed
    return Ensemble.of(ALONE, [(whole, trained_network(task, (whole, seed)))]), runs


def _narrow(run: Run, uniform: Architecture) -> list[NetworkRecord]:
    """The network of uniform width, trained from scratch for as long as the search and the further training took."""
    epochs = run.settings.train.epochs + run.settings.section(GuidedSettings).tune_epochs
    run = replace(run, settings=run.settings.changed({"retrain": {"epochs": epochs}}))
    task = Retraining(run, run.workspace.checkpoints / "uniform", teacher=_teacher(run))
    items = [(uniform, seed) for seed in range(run.settings.retrain.seeds)]
    return list(train_all(run, items, task, stage="uniform").values())


def _mixture(run: Run, net: GatedSupernet, members: Sequence[Architecture]) -> Ensemble:
    networks = net.extract_many(members).eval()
    name = f"mixture of {len(members)} draw{'' if len(members) == 1 else 's'}"
    known = MemberOutputs.of(run, networks)
    return Ensemble(name, members, networks, [1 / len(members)] * len(members), inherited=True, known=known)


def _of_mixture(net: GatedSupernet, mixture: Ensemble) -> NetworkRecord:
    assert mixture.known is not None
    found = mixture.known.measure(torch.tensor(mixture.weights, dtype=mixture.known.valid.dtype), names=None)
    values = {name: value for name, value in found.items() if name != "valid_loss"}
    return NetworkRecord(architecture=masks(net, mixture.architectures[0]), seed=0, **values)
