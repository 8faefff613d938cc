"""Training of a differentiable search: weights and q together, in one stage or in several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from polyarch.data import Batch
from polyarch.distributions import FactorisedCategorical, FactorisedDirichlet
from polyarch.errors import ConfigError
from polyarch.methods.differentiable.progressive import Kept, drop_skips, strongest_options
from polyarch.methods.differentiable.strategy import DEPTHS, course
from polyarch.randomness import global_seed
from polyarch.runs.devices import to_device
from polyarch.runs.parts import Parts
from polyarch.runs.run import Context
from polyarch.runs.settings import StageSettings
from polyarch.runs.training import fit_strategy, shown
from polyarch.spaces import Architecture
from polyarch.strategies import Bilevel
from polyarch.training import Callback, CollapseGuard, Row, SearchDiagnostics, SkipDropout
from polyarch.truths.lookup import truth_for


@dataclass(frozen=True)
class Learned:
    """What the training ended with.

    Args:
        parts: with the supernet of the last stage.
        history: the rows of all stages, epochs counted on.
        architectures: what q pointed at after every epoch, as keys.
        marginals: q after every epoch, choice -> (O,).
        findings: of the guard against collapse, in sentences.
        back_to: the epoch whose state the guard put back.
    """

    parts: Parts
    strategy: Bilevel
    history: list[Row]
    architectures: list[str]
    marginals: list[dict[str, list[float]]]
    findings: list[str]
    back_to: int | None


def learn(context: Context) -> Learned:
    """Trains supernet and q, or goes on with it; a progressive search stage by stage."""
    stages = context.parts.settings.differentiable.stages
    if not stages:
        return _stage(context, context.parts, "train", [], {})
    found: Learned | None = None
    kept: Kept = {}
    for number, stage in enumerate(stages):
        parts = staged(context.parts, stage, len(stages))
        dropout = drop_skips(parts.net)
        fading = SkipDropout(dropout, _faded(stage.skip_dropout))
        one = _stage(context, parts, f"train-{number}", [fading], kept)
        found = one if found is None else _joined(found, one, number)
        kept = strongest_options(_factorised(one.strategy), stage.options)
    assert found is not None
    return found


def staged(parts: Parts, stage: StageSettings, stages: int) -> Parts:
    """The parts of one stage: a deeper network with fresh weights, and its share of the epochs."""
    settings = parts.settings
    space = settings.space
    if stage.depth is not None:
        if space.kind not in DEPTHS:
            raise ConfigError(f"Expected no depth in differentiable.stages for space {space.kind}. Got {stage.depth}.")
        space = space.model_copy(update={DEPTHS[space.kind]: stage.depth})
    train = settings.train.model_copy(update={"epochs": max(settings.train.epochs // stages, 1)})
    changed = settings.model_copy(update={"space": space, "train": train})
    make = parts.make if stage.depth is None else partial(space.build, parts.network_shape, parts.data.classes)
    with global_seed(settings.seed, "supernet"):
        net = to_device(make(), next(parts.net.parameters()).device)
    return replace(parts, settings=changed, make=make, net=net)


def _stage(context: Context, parts: Parts, store: str, further: list[Callback], kept: Kept) -> Learned:
    settings = parts.settings
    chosen = settings.differentiable
    strategy, optimizer = parts.strategy()
    assert isinstance(strategy, Bilevel)
    for choice, options in kept.items():
        _factorised(strategy).keep(choice, options)
    diagnostics = SearchDiagnostics(
        _probe(parts) if chosen.eigenvalue_every else (),
        every=chosen.eigenvalue_every or 1,
        truth=_known_accuracy(parts),
        seed=settings.seed,
    )
    guard = None if chosen.guard == "off" else CollapseGuard(chosen.guard, say=context.display.say)
    watching: list[Callback] = [diagnostics] if guard is None else [diagnostics, guard]
    with shown(context) as showing:
        history = fit_strategy(
            parts,
            strategy,
            optimizer,
            context.workspace.store(store),
            [*course(strategy, settings), *further, *watching, *showing],
            context.stop,
        )
    found = (diagnostics.architectures, diagnostics.marginals)
    if guard is None:
        return Learned(parts, strategy, history.rows, *found, [], None)
    return Learned(parts, strategy, history.rows, *found, guard.findings, guard.back_to)


def _joined(first: Learned, second: Learned, number: int) -> Learned:
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


def _probe(parts: Parts) -> list[Batch]:
    """The batch on which the eigenvalue is measured: of the data that q learns from."""
    data = parts.valid if parts.strategy()[0].held_out_per_step else parts.train
    return list(islice(parts.batches(data, parts.settings.train.batch_size, stream="curvature").epoch(0), 1))


def _known_accuracy(parts: Parts) -> Callable[[Architecture], float | None] | None:
    name = parts.settings.rank.truth
    if name is None:
        return None
    truth = truth_for(name, parts.net.space)

    return lambda architecture: truth.accuracy(architecture) if architecture in truth else None
