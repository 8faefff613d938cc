"""From a learned distribution to one architecture: the strongest options, within limits, or by what removal costs."""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from polyarch.data import Batch
from polyarch.errors import ImpossibleSpace, InvalidInput
from polyarch.nn import BatchStatistics
from polyarch.spaces import Architecture, Gates, skip_count
from polyarch.strategies import Bilevel, measure
from polyarch.supernets import ChosenOptions, Relaxation, without_option

Excess = Callable[[Architecture], float]
"""How far an architecture is beyond what is allowed; 0 or less within it."""


def weights_of(strategy: Bilevel) -> dict[str, Tensor]:
    """The probabilities of q, choice -> (O,)."""
    return {name: gate.detach().cpu() for name, gate in strategy.q.mean().items()}


def strongest(relaxation: Relaxation, weights: Gates, *, excess: Excess | None = None) -> Architecture:
    """What the weights point at: the largest option of every choice, the strongest edges into DARTS and 1shot1 nodes.

    Where that is not allowed, options are taken out one by one: each time the one of those chosen whose loss lowers the
    excess most for what the logarithm of the weights falls by.

    Args:
        weights: of the weighed choices, (O,) each.
        excess: what must be at most 0.
    """
    found, whole = relaxation.architecture(weights), weights
    if excess is None:
        return found
    while (beyond := excess(found)) > 0:
        best: tuple[float, Gates] | None = None
        for choice, option in relaxation.chosen(weights):
            changed = without_option(weights, choice, option)
            if not _decides(relaxation, changed, choice):
                continue
            other = relaxation.architecture(changed)
            gain = beyond - excess(other)
            cost = _log_weight(whole, relaxation.chosen(weights)) - _log_weight(whole, relaxation.chosen(changed))
            worth = gain / max(cost, 1e-9)
            if gain > 0 and (best is None or worth > best[0]):
                best = (worth, changed)
        if best is None:
            raise ImpossibleSpace(
                f"Expected an architecture near {found.key} that keeps the limits. Found none by taking out options."
            )
        weights = best[1]
        found = relaxation.architecture(weights)
    return found


def skips_beyond(most: int) -> Excess:
    """Skip connections beyond ``most``, the limit of P-DARTS."""
    return lambda architecture: float(skip_count(architecture) - most)


def alternatives(relaxation: Relaxation, weights: Gates) -> list[Architecture]:
    """Architectures that differ from the strongest where one of its options is taken out, the likeliest first."""
    found: dict[Architecture, float] = {}
    for choice, option in relaxation.chosen(weights):
        changed = without_option(weights, choice, option)
        if _decides(relaxation, changed, choice):
            found.setdefault(relaxation.architecture(changed), _log_weight(weights, relaxation.chosen(changed)))
    return sorted(found, key=lambda architecture: -found[architecture])


def by_perturbation(
    strategy: Bilevel,
    held_out: Sequence[Batch],
    *,
    tune: Callable[[], Sequence[Batch]] = tuple,
    generator: Generator,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Tensor]:
    """Weights by what is missed: every choice takes the option without which the mixed network gets worst.

    A choice between edges takes as many as the architecture keeps, with equal weights.

    The choices are decided in random order, by the score on held-out data, higher is better; those that are not decided
    yet stay mixed. Where a relaxation weighs more edges than an architecture has, the weight of an edge is then how
    much it is missed, so that `strongest` keeps the right ones. The weights of the supernet change. (DARTS-PT.)

    Args:
        held_out: batches on which scores are measured.
        tune: gives the batches of the steps of the weights after a decision; none by default.
    """
    if not held_out:
        raise InvalidInput("Expected at least one batch of held-out data to perturb on. Got none.")
    relaxation = strategy.mixed.relaxation
    weights = weights_of(strategy)
    names = [choice.name for choice in relaxation.space.choices if len(choice) > 1]
    order = [names[position] for position in torch.randperm(len(names), generator=generator).tolist()]
    for done, name in enumerate(order):
        options = [option for option, weight in enumerate(weights[name].tolist()) if weight > 0]
        scores = {option: _score(strategy, without_option(weights, name, option), held_out) for option in options}
        # Among equals the heavier option: removal that changes nothing must not decide by position.
        order_of_loss = sorted(options, key=lambda option: (scores[option], -float(weights[name][option])))
        kept = order_of_loss[: relaxation.edges_kept.get(name, 1)]
        weights[name] = F.one_hot(torch.tensor(kept), len(weights[name])).to(weights[name]).mean(0)
        for batch in tune():
            strategy.step_with(weights, batch)
        report(done + 1, len(order))
    return weights if relaxation.space == relaxation.net.space else _missed(strategy, weights, held_out)


def _missed(strategy: Bilevel, weights: Gates, held_out: Sequence[Batch]) -> dict[str, Tensor]:
    """The weights of decided choices, each scaled by 1 plus the score that is lost without it."""
    full = _score(strategy, weights, held_out)
    lost = {
        name: full - _score(strategy, without_option(weights, name, int(weight.argmax())), held_out)
        for name, weight in weights.items()
    }
    return {name: weight * (1 + lost[name]) for name, weight in weights.items()}


def _score(strategy: Bilevel, weights: Gates, batches: Sequence[Batch]) -> float:
    """Of the mixed network with batch statistics."""
    BatchStatistics().prepare(strategy.mixed.relaxation, ())
    task = strategy.mixed.task
    found = measure(task, lambda inputs: strategy.mixed.logits(inputs, weights, {}), batches)
    return task.selection.gain(found[task.selection.name])


def _decides(relaxation: Relaxation, weights: Gates, choice: str) -> bool:
    """Whether a choice has as many options of positive weight as an architecture keeps."""
    return int((weights[choice] > 0).sum()) >= relaxation.edges_kept.get(choice, 1)


def _log_weight(weights: Gates, chosen: ChosenOptions) -> float:
    """The sum of the logarithms of the weights of chosen options."""
    return sum(math.log(max(float(weights[name][option]), 1e-12)) for name, option in chosen)
