"""After a differentiable search has learned: one architecture, others like it, and what is told of the search."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from torch import Tensor

from polyarch.data import endless
from polyarch.methods.differentiable.discretisation import (
    Excess,
    alternatives,
    by_perturbation,
    skips_beyond,
    strongest,
    weights_of,
)
from polyarch.methods.differentiable.training import Learned
from polyarch.methods.one_shot.members import distinct
from polyarch.randomness import generator_at
from polyarch.results import DifferentiableRecord
from polyarch.runs.run import Context
from polyarch.searchers import Limits
from polyarch.spaces import Architecture
from polyarch.tables import published_notation


def find_architectures(context: Context, learned: Learned) -> list[Architecture]:
    """What q points at within the limits, or what is missed most; then others near it, as many as the ensemble has."""
    parts = learned.parts
    chosen = parts.settings.differentiable
    relaxation = learned.strategy.mixed.relaxation
    excess = _excess(context.limits, chosen.max_skips)
    weights = weights_of(learned.strategy)
    if chosen.discretisation == "perturbation":
        weights = _perturbed(context, learned)
    best = strongest(relaxation, weights, excess=excess)
    near = (other for other in alternatives(relaxation, weights) if excess is None or excess(other) <= 0)
    return distinct(parts.net, (best, *near), most=parts.settings.retrain.members)


def record_of(learned: Learned, architecture: Architecture | None = None) -> DifferentiableRecord:
    """The course of the search, for results and report.

    Args:
        architecture: that was chosen; by default what q points at.
    """
    settings = learned.parts.settings
    chosen = settings.differentiable
    best = learned.strategy.architecture() if architecture is None else architecture
    return DifferentiableRecord(
        method=settings.method,
        gradient=chosen.gradient,
        parametrisation=chosen.parametrisation,
        discretisation=chosen.discretisation,
        architecture=best.to_dict(),
        notation=published_notation(best),
        choices={choice.name: list(choice.options) for choice in learned.strategy.q.space.choices},
        history=learned.history,
        architectures=learned.architectures,
        marginals=learned.marginals,
        findings=learned.findings,
        back_to=learned.back_to,
    )


def with_trained(context: Context, learned: Learned) -> Context:
    """The context of the stages that follow, with the supernet that was trained last."""
    return replace(context, parts=replace(context.parts, net=learned.parts.net, make=learned.parts.make))


def _perturbed(context: Context, learned: Learned) -> dict[str, Tensor]:
    parts, chosen = learned.parts, learned.parts.settings.differentiable
    held_out = list(islice(parts.evaluation_batches(parts.valid).epoch(0), chosen.perturbation_batches))
    train = endless(parts.batches(parts.train, parts.settings.train.batch_size, stream="perturbation"))
    with context.display.stage("perturb") as report:
        return by_perturbation(
            learned.strategy,
            held_out,
            tune=lambda: list(islice(train, chosen.tune_steps)),
            generator=generator_at(parts.settings.seed, "perturbation", 0),
            report=lambda done, total: report(done, total, ""),
        )


def _excess(limits: Limits, most_skips: int | None) -> Excess | None:
    """How far an architecture is beyond the limits of the run, as shares of them."""
    if not limits.limits and most_skips is None:
        return None
    skips = None if most_skips is None else skips_beyond(most_skips)
    return lambda architecture: limits.excess(architecture) + max(skips(architecture) if skips else 0.0, 0.0)
