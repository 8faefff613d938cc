"""After a differentiable search has learned: one architecture, others like it, and what is told of the search."""

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
from polyarch.methods.differentiable.record import DifferentiableRecord
from polyarch.methods.differentiable.settings import DifferentiableSettings
from polyarch.methods.differentiable.training import LearnedRelaxation
from polyarch.randomness import generator_at
from polyarch.runs.run import Run, distinct_networks
from polyarch.searchers import Limits
from polyarch.spaces import Architecture
from polyarch.tables import published_notation


def find_architectures(run: Run, learned: LearnedRelaxation) -> list[Architecture]:
    """What q points at within the limits, or what is missed most; then others near it, as many as the ensemble has."""
    chosen = run.settings.section(DifferentiableSettings)
    relaxation = learned.strategy.mixed.relaxation
    excess = _excess(run.limits, chosen.max_skips)
    weights = weights_of(learned.strategy)
    if chosen.discretisation == "perturbation":
        weights = _perturbed(run, learned)
    best = strongest(relaxation, weights, excess=excess)
    near = (other for other in alternatives(relaxation, weights) if excess is None or excess(other) <= 0)
    return distinct_networks((best, *near), most=run.settings.retrain.members)


def record_of(learned: LearnedRelaxation, architecture: Architecture | None = None) -> DifferentiableRecord:
    """The course of the search, for results and report.

    Args:
        architecture: that was chosen; by default what q points at.
    """
    settings = learned.run.settings
    chosen = settings.section(DifferentiableSettings)
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


def _perturbed(run: Run, learned: LearnedRelaxation) -> dict[str, Tensor]:
    chosen = run.settings.section(DifferentiableSettings)
    held_out = list(islice(run.feed.in_order(run.feed.valid).epoch(0), chosen.perturbation_batches))
    train = endless(run.feed.batches(run.feed.train, run.settings.train.batch_size, stream="perturbation"))
    with run.display.stage("perturb") as report:
        return by_perturbation(
            learned.strategy,
            held_out,
            tune=lambda: list(islice(train, chosen.tune_steps)),
            generator=generator_at(run.settings.seed, "perturbation", 0),
            report=lambda done, total: report(done, total, ""),
        )


def _excess(limits: Limits, most_skips: int | None) -> Excess | None:
    """How far an architecture is beyond the limits of the run, as shares of them."""
    if not limits.limits and most_skips is None:
        return None
    skips = None if most_skips is None else skips_beyond(most_skips)
    return lambda architecture: limits.excess(architecture) + max(skips(architecture) if skips else 0.0, 0.0)
