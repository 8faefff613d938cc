"""Members of a mixture whose prediction stays within a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture

JointCost = Callable[[Sequence[Architecture]], float]
"""The cost of a prediction by all of these architectures together, such as `polyarch.estimators.shared_macs`."""


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
