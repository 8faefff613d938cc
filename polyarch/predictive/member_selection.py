"""Which architectures become members of a mixture: the most probable ones, as many as a budget allows."""

import heapq
import math
from collections.abc import Callable, Sequence

from polyarch.distributions import ArchDistribution, Factorised, Uniform
from polyarch.errors import InvalidInput
from polyarch.objectives import support
from polyarch.spaces import Architecture

JointCost = Callable[[Sequence[Architecture]], float]
"""The cost of a prediction by all of these architectures together, such as `polyarch.estimators.shared_macs`."""


def most_probable(q: ArchDistribution, most: int) -> list[tuple[Architecture, float]]:
    """The ``most`` pairs (a, log q(a)) of highest probability, best first, equal ones in the order of the space.

    The list is exact, even in spaces too large to enumerate: independent choices are searched best first. It is shorter
    if q has fewer architectures of probability above 0. A uniform q over more than ``most`` architectures is refused,
    because they should be sampled: none of them is more probable than another.
    """
    if most < 1:
        raise InvalidInput(f"Expected 1 or more architectures to list. Got {most}.")
    if isinstance(q, Factorised):
        return _best_first(q, most)
    if isinstance(q, Uniform) and q.space.count() > most:
        raise InvalidInput(
            f"Expected a distribution that prefers some architectures. Got a uniform one over {q.space.count():,}, "
            f"more than the {most:,} to list: draw them with q.sample."
        )
    architectures = support(q)
    values: list[float] = q.log_prob(architectures).detach().double().tolist()
    pairs = [pair for pair in zip(architectures, values, strict=True) if pair[1] > -math.inf]
    return heapq.nsmallest(most, pairs, key=lambda pair: (-pair[1], pair[0].indices))


def _best_first(q: Factorised, most: int) -> list[tuple[Architecture, float]]:
    """Descends from the mode: a step replaces the option of one choice by its next less probable one.

    A step never raises the probability, so the best architecture in the heap is the next of the list. Steps only change
    choices from ``first`` on, so that every architecture is reached once. The heap holds at most ``most`` times the
    number of choices.
    """
    columns = []
    for log_marginal in q.log_marginals():
        values: list[float] = log_marginal.detach().double().tolist()
        possible = [option for option in enumerate(values) if option[1] > -math.inf]
        columns.append(sorted(possible, key=lambda option: -option[1]))  # a stable sort

    def entry(ranks: tuple[int, ...], first: int) -> tuple[float, tuple[int, ...], tuple[int, ...], int]:
        options = [column[rank] for column, rank in zip(columns, ranks, strict=True)]
        # An exactly rounded sum, so that architectures with the same factors in another order are exactly equal.
        return -math.fsum(value for _, value in options), tuple(index for index, _ in options), ranks, first

    heap = [entry((0,) * len(columns), 0)]
    found: list[tuple[Architecture, float]] = []
    while heap and len(found) < most:
        cost, indices, ranks, first = heapq.heappop(heap)
        found.append((Architecture(q.space, indices), -cost))
        for position in range(first, len(columns)):
            rank = ranks[position] + 1
            if rank < len(columns[position]):
                heapq.heappush(heap, entry((*ranks[:position], rank, *ranks[position + 1 :]), position))
    return found


def members_within(ordered: Sequence[Architecture], cost: JointCost, budget: float) -> list[Architecture]:
    """Goes through the architectures, best first, and takes each one for which cost(taken + [it]) <= budget.

    An architecture that is too expensive is skipped; a later one that shares more with those taken may still fit.
    """
    taken: list[Architecture] = []
    cheapest = float("inf")
    for architecture in ordered:
        found = cost([*taken, architecture])
        cheapest = min(cheapest, found)
        if found <= budget:
            taken.append(architecture)
    if not taken:
        raise InvalidInput(
            f"Expected a budget for at least one of {len(ordered)} architectures, the cheapest of which costs "
            f"{cheapest:g}. Got {budget:g}."
        )
    return taken
