"""The NAS-Bench-201 space: one operation on each of six edges, its notation and its canonical form.

Dong & Yang (2020), "NAS-Bench-201: Extending the Scope of Reproducible Neural Architecture Search", arXiv:2001.00326.
"""

import re
from functools import lru_cache, partial

from polyarch.errors import InvalidInput
from polyarch.spaces.architecture import Architecture, Choice
from polyarch.spaces.computation import Computation, Sum
from polyarch.spaces.space import Space, space_name

NB201_OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
NB201_NO_NONE = NB201_OPERATIONS[1:]
"""The operations of the subspace without ``none``: 4,096 cells."""
NB201_CONVOLUTIONS = ("nor_conv_1x1", "nor_conv_3x3")
"""The operations of the subspace of convolutions: 64 cells."""
NB201_EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
"""The six edges (source node, target node), numbered as in the benchmark."""


def edge_name(source: int, target: int) -> str:
    """The name of the choice on an edge, e.g. ``0->1``."""
    return f"{source}->{target}"


def nb201_space(operations: tuple[str, ...] = NB201_OPERATIONS, *, pool_weights: bool = False) -> Space:
    """The space of NAS-Bench-201 cells: 15,625 with all five operations.

    Args:
        operations: a subset, e.g. ``NB201_NO_NONE`` (4,096 cells) or ``NB201_CONVOLUTIONS`` (64).
        pool_weights: whether the pooling has weights of its own, for the canonical form.
    """
    choices = tuple(Choice(edge_name(*edge), operations) for edge in NB201_EDGES)
    canonical = partial(nb201_canonical, pool_weights=True) if pool_weights else nb201_canonical
    return Space(space_name("nb201", operations, NB201_OPERATIONS), choices, canonical=canonical)


def nb201_string(architecture: Architecture) -> str:
    """The benchmark's own notation: ``|op~0|+|op~0|op~1|+|op~0|op~1|op~2|``."""
    nodes = []
    for target in (1, 2, 3):
        entries = [f"{architecture.option(edge_name(source, target))}~{source}" for source in range(target)]
        nodes.append(f"|{'|'.join(entries)}|")
    return "+".join(nodes)


def parse_nb201(text: str, space: Space | None = None) -> Architecture:
    """Reads the benchmark's notation."""
    nodes = text.strip().split("+")
    entries = [
        (edge_name(int(source), target), operation)
        for target, node in enumerate(nodes, start=1)
        for operation, source in re.findall(r"([^|~]+)~(\d)\|", node)
    ]
    is_cell = all(re.fullmatch(r"\|([^|~]+~\d\|)+", node) for node in nodes) and len(entries) == len(NB201_EDGES)
    if not is_cell or {edge for edge, _ in entries} != {edge_name(*edge) for edge in NB201_EDGES}:
        raise InvalidInput(f"Expected a cell like |op~0|+|op~0|op~1|+|op~0|op~1|op~2|. Got {text!r}.")
    return (space or nb201_space()).architecture(dict(entries))


def nb201_canonical(architecture: Architecture, *, pool_weights: bool = False) -> str:
    """The `Computation` of a cell: 5,044 keys over the 15,625 cells, one for each function of input and weights.

    The benchmark's own key merges one operation that is used twice with two operations, and counts ``none`` as a term
    of a sum, which leaves 6,466.

    Args:
        pool_weights: whether the pooling has weights; otherwise it is linear.
    """
    return _cell_key(tuple(architecture.option(edge_name(*edge)) for edge in NB201_EDGES), pool_weights)


@lru_cache(maxsize=65536)
def _cell_key(operations: tuple[str, ...], pool_weights: bool) -> str:
    cell = Computation()
    nodes: list[Sum] = [cell.input("x"), (), (), ()]
    for (source, target), operation in zip(NB201_EDGES, operations, strict=True):
        value = nodes[source]
        if operation == "none" or not value:
            continue
        if operation == "avg_pool_3x3" and not pool_weights:
            value = cell.linear(operation, value)
        elif operation != "skip_connect":
            value = cell.operation(operation, value)
        nodes[target] += value
    return cell.key([nodes[3]])
