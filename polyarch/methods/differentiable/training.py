"""Training of a differentiable search: weights and q together, in one stage or in several."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from torch import nn

from polyarch.data import Batch
from polyarch.distributions import FactorisedCategorical, FactorisedDirichlet
from polyarch.errors import ConfigError
from polyarch.methods.differentiable.settings import DifferentiableSettings, StageSettings
from polyarch.methods.differentiable.strategy import DEPTHS, bilevel_training
from polyarch.nn import ChoiceBlock, OneOf
from polyarch.runs.run import Run
from polyarch.runs.training import fit_training, shown
from polyarch.spaces import Architecture
from polyarch.strategies import Bilevel
from polyarch.supernets import Supernet
from polyarch.supernets.darts import EdgeOperations
from polyarch.tables.lookup import truth_for
from polyarch.training import Callback, CollapseGuard, DropoutSchedule, Row, SearchDiagnostics

Kept = dict[str, list[int]]
"""Choice -> the options that go on."""


def strongest_options(q: FactorisedCategorical | FactorisedDirichlet, most: int) -> Kept:
    """The ``most`` most probable options of every choice of an operation, in their order; wirings keep all."""
    kept: Kept = {}
    for choice in q.space.choices:
        if choice.kind != "wiring":
            order = q.mean()[choice.name].detach().argsort(descending=True, stable=True).tolist()
            kept[choice.name] = sorted(order[:most])
    return kept


def drop_skips(net: Supernet) -> list[nn.Dropout]:
    """Puts a dropout layer, of probability 0, in place of every identity that is an option of an operation choice.

    In evaluation mode it is the identity that it was.
    """
    layers: list[nn.Dropout] = []
    for module in list(net.modules()):
        if isinstance(module, ChoiceBlock | EdgeOperations | OneOf):
            options = module.options if isinstance(module, OneOf) else module.operations
            for name, operation in list(options.named_children()):
                if isinstance(operation, nn.Identity):
                    layers.append(nn.Dropout(0.0))
                    options.add_module(name, layers[-1])
    return layers


@dataclass(frozen=True)
class LearnedRelaxation:
    """What the training ended with.

    Args:
        run: with the supernet of the last stage.
        history: the rows of all stages, epochs counted on.
        architectures: what q pointed at after every epoch, as keys.
        marginals: q after every epoch, choice -> (O,).
        findings: of the guard against collapse, in sentences.
        back_to: the epoch whose state the guard put back.
    """

    run: Run
    strategy: Bilevel
    history: list[Row]
    architectures: list[str]
    marginals: list[dict[str, list[float]]]
    findings: list[str]
    back_to: int | None


def learn(run: Run) -> LearnedRelaxation:
    """Trains supernet and q, or resumes it; a progressive search goes stage by stage."""
    stages = run.settings.section(DifferentiableSettings).stages
    if not stages:
        return _stage(run, run, "train", [], {})
    found: LearnedRelaxation | None = None
    kept: Kept = {}
    for number, stage in enumerate(stages):
        part = staged(run, stage, len(stages))
        fading = DropoutSchedule(drop_skips(part.net), _faded(stage.skip_dropout))
        one = _stage(run, part, f"train-{number}", [fading], kept)
        found = one if found is None else _joined(found, one, number)
        kept = strongest_options(_factorised(one.strategy), stage.options)
    assert found is not None
    return found


def staged(run: Run, stage: StageSettings, stages: int) -> Run:
    """One stage of the run: a deeper network with fresh weights, and its share of the epochs."""
    settings, networks = run.settings, run.networks
    space = settings.space
    if stage.depth is not None:
        if space.kind not in DEPTHS:
            raise ConfigError(f"Expected no depth in differentiable.stages for space {space.kind}. Got {stage.depth}.")
        space = space.model_copy(update={DEPTHS[space.kind]: stage.depth})
        make = partial(space.build_on, run.feed.example, run.task.outputs)
        networks = replace(networks, make=make)
    settings = settings.changed({"train": {"epochs": max(settings.train.epochs // stages, 1)}})
    settings = settings.model_copy(update={"space": space})
    return replace(run, settings=settings, networks=networks, net=networks.supernet(settings.seed))


def _stage(run: Run, part: Run, store: str, further: list[Callback], kept: Kept) -> LearnedRelaxation:
    """Trains one stage, which is the whole ``run`` or a ``part`` of it."""
    chosen = part.settings.section(DifferentiableSettings)
    training = bilevel_training(part)
    strategy = training.strategy
    assert isinstance(strategy, Bilevel)
    for choice, options in kept.items():
        _factorised(strategy).keep(choice, options)
    diagnostics = SearchDiagnostics(
        _probe(part, strategy) if chosen.eigenvalue_every else (),
        every=chosen.eigenvalue_every or 1,
        truth=_known_accuracy(part),
        seed=part.settings.seed,
    )
    guard = None if chosen.guard == "off" else CollapseGuard(chosen.guard, say=run.display.say)
    watching: list[Callback] = [diagnostics] if guard is None else [diagnostics, guard]
    with shown(run) as showing:
        callbacks = [*further, *watching, *showing]
        history = fit_training(part, training, run.workspace.store(store), callbacks, run.stop)
    found = (diagnostics.architectures, diagnostics.marginals)
    if guard is None:
        return LearnedRelaxation(part, strategy, history.rows, *found, [], None)
    return LearnedRelaxation(part, strategy, history.rows, *found, guard.findings, guard.back_to)


def _joined(first: LearnedRelaxation, second: LearnedRelaxation, number: int) -> LearnedRelaxation:
    """Two stages as one course; what was trained is that of the second, stage ``number``."""
    epochs = len(first.history)
    rows = [{**row, "epoch": row["epoch"] + epochs} for row in second.history]
    return replace(
        second,
        history=[*first.history, *rows],
        architectures=[*first.architectures, *second.architectures],
        marginals=[*first.marginals, *second.marginals],
        findings=[*first.findings, *(f"Stage {number + 1}: {finding}" for finding in second.findings)],
        back_to=None if second.back_to is None else second.back_to + epochs,
    )


def _faded(start: float) -> Callable[[float], float]:
    return lambda share: start * (1 - share)


def _factorised(strategy: Bilevel) -> FactorisedCategorical | FactorisedDirichlet:
    assert isinstance(strategy.q, FactorisedCategorical | FactorisedDirichlet)
    return strategy.q


PROBE = 16
"""Examples whose curvature is computed at a time: second derivatives take three times the memory of a training step."""


def _probe(run: Run, strategy: Bilevel) -> list[Batch]:
    """What the eigenvalue is measured on, in parts: as many examples as a batch has, of the data that q learns from."""
    data, size = run.feed.valid if strategy.held_out_per_step else run.feed.train, run.settings.train.batch_size
    return list(islice(run.feed.batches(data, min(size, PROBE), stream="curvature").epoch(0), max(size // PROBE, 1)))


def _known_accuracy(run: Run) -> Callable[[Architecture], float | None] | None:
    name = run.settings.rank.truth
    if name is None:
        return None
    truth = truth_for(name, run.net.space)

    return lambda architecture: truth.accuracy(architecture) if architecture in truth else None
