"""How many members a mixture can have for what its prediction may cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture

JointCost = Callable[[Sequence[Architecture]], float]
"""What a prediction by all of these architectures together costs, such as `polyarch.estimators.shared_macs`."""


def members_within(ordered: Sequence[Architecture], cost: JointCost, budget: float) -> list[Architecture]:
    """Walks along the architectures and takes each one with which cost(taken + [it]) <= budget.

    One that is too dear is passed over, and a later one that shares more with those taken may still fit. With a cost
    that does not fall when a member is added the budget is the only limit; for a fixed number T, cut ``ordered``.

    Args:
        ordered: the best first.
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
