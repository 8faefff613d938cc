"""A hard path through a cell that adds inter-choice biases to the inputs of operations, in few passes over values.

Adding a vector (C, 1, 1) to a value (B, C, H, W) takes a pass over the value and one over its gradient. Two tricks make
it cheaper:

- Operations that pass constants through unchanged, such as skips, defer the vector: it joins the shift, a sum of
  vectors, of the node they feed.
- A normalisation layer adds a vector for free, forwards and backwards. So in training the first convolution that feeds
  a node adds its shift, together with the vector of the first convolution that the node feeds.

When a path is recorded or evaluated, vectors are added where they belong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from polyarch.nn import ChoiceBlock, plus

Step = tuple[int, int, int, int, tuple[int, ...]]
"""One operation of a hard path: (edge, source node, target node, option, options of the predecessors)."""


@dataclass(frozen=True)
class Arrival:
    """The operations that feed a node."""

    node: int
    steps: tuple[tuple[int, int, int], ...]  # edge, source and option of each operation
    kept: frozenset[tuple[int, int, int]]  # the steps that pass constants through
    carrier: int | None  # the edge whose normalisation layer adds vectors, if any
    rider: int | None  # the edge from this node whose vector is among them, if any


def shifted_path(
    blocks: Sequence[ChoiceBlock], steps: tuple[Step, ...], x: Tensor, shift: Tensor | None, *, ride: bool
) -> tuple[Tensor | None, Tensor | None]:
    """The last node's value, None if nothing reaches it, and the shift still to be added to it.

    Args:
        steps: in the order of their targets.
        shift: still to be added to x.
        ride: whether normalisation layers add vectors.
    """
    # Node j is nodes[j] + shifts[j] minus the vector of the edge riders[j], which nodes[j] already contains.
    nodes: list[Tensor | None] = [x, None, None, None]
    shifts: list[Tensor | None] = [shift, None, None, None]
    riders: list[int | None] = [None] * 4
    vectors = {edge: blocks[edge].addend(x, option, previous) for edge, _, _, option, previous in steps}
    last = blocks[-1]
    for arrival in arrivals_of(steps, last.keeping, last.normalising if ride else ()):
        missing = {}
        left: Tensor | None = None
        for step in arrival.steps:
            edge, source, _ = step
            needed = _needed(shifts[source], vectors, edge, riders[source])
            if step not in arrival.kept:
                missing[edge] = needed
            elif needed is not None:
                left = plus(left, needed)
        if arrival.rider is not None:
            rider = vectors[arrival.rider]
            assert rider is not None
            left = plus(left, rider)
        total = None
        for edge, source, option in arrival.steps:
            value = nodes[source]
            assert value is not None  # nodes come before the nodes they feed
            after = left if edge == arrival.carrier else None
            total = plus(total, blocks[edge].between(value, missing.get(edge), option, after))
        nodes[arrival.node], riders[arrival.node] = total, arrival.rider
        shifts[arrival.node] = left if arrival.carrier is None else None
    return nodes[3], shifts[3]


def _needed(shift: Tensor | None, vectors: dict[int, Tensor | None], edge: int, rider: int | None) -> Tensor | None:
    """The vector to add to a node's value, which already contains that of ``rider``, before it enters an edge."""
    own = vectors[edge]
    if own is None or edge == rider:
        return shift
    if rider is not None:
        there = vectors[rider]
        assert there is not None
        own = own - there
    return plus(shift, own)


@lru_cache(maxsize=65536)
def arrivals_of(steps: tuple[Step, ...], keeping: tuple[int, ...], normalising: tuple[int, ...]) -> tuple[Arrival, ...]:
    """The nodes with inputs, in order.

    Args:
        keeping: the options that pass constants through.
        normalising: the options that end in a normalisation layer that may add vectors.
    """
    arrivals = []
    convolutions = [step for step in steps if step[3] in normalising]
    for node in sorted({target for _, _, target, *_ in steps}):
        arriving = tuple((edge, source, option) for edge, source, target, option, _ in steps if target == node)
        kept = frozenset(step for step in arriving if step[2] in keeping)
        carrier = next((edge for edge, _, target, *_ in convolutions if target == node), None)
        rider = next((edge for edge, source, *_, before in convolutions if source == node and before), None)
        arrivals.append(Arrival(node, arriving, kept, carrier, None if carrier is None else rider))
    return tuple(arrivals)
