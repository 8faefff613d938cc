"""Notations of published spaces, to and from architectures, and their canonical forms."""

from __future__ import annotations

import re

from polyarch.errors import InvalidInput
from polyarch.spaces.architecture import Architecture, Choice
from polyarch.spaces.space import Space

NB201_OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
NB201_NO_NONE = NB201_OPERATIONS[1:]
"""The operations of the sub-space without ``none``: 4,096 cells."""
NB201_CONVOLUTIONS = ("nor_conv_1x1", "nor_conv_3x3")
"""The operations of the sub-space of convolutions: 64 cells."""
NB201_EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
"""The six edges (source node, target node), numbered as in document and benchmark."""


def edge_name(source: int, target: int) -> str:
    """The name of the choice on an edge, e.g. ``0->1``."""
    return f"{source}->{target}"


def nb201_space(operations: tuple[str, ...] = NB201_OPERATIONS) -> Space:
    """The NAS-Bench-201 cell: one operation on each of six edges; 15,625 cells with all five operations.

    Args:
        operations: a subset, e.g. ``NB201_NO_NONE`` (4,096 cells) or ``NB201_CONVOLUTIONS`` (64).
    """
    for operation in operations:
        if operation not in NB201_OPERATIONS:
            raise InvalidInput(f"Expected operations out of {NB201_OPERATIONS}. Got {operation!r}.")
    name = "nb201" if operations == NB201_OPERATIONS else f"nb201[{','.join(operations)}]"
    choices = tuple(Choice(edge_name(*edge), operations) for edge in NB201_EDGES)
    return Space(name, choices, canonical=nb201_canonical)


def nb201_string(architecture: Architecture) -> str:
    """The benchmark's own notation: ``|op~0|+|op~0|op~1|+|op~0|op~1|op~2|``."""
    nodes = []
    for target in (1, 2, 3):
        entries = [f"{architecture.option(edge_name(source, target))}~{source}" for source in range(target)]
        nodes.append(f"|{'|'.join(entries)}|")
    return "+".join(nodes)


def parse_nb201(text: str, space: Space | None = None) -> Architecture:
    """Reads the benchmark's notation."""
    space = space or nb201_space()
    options, entries = {}, 0
    for target, node in enumerate(text.strip().split("+"), start=1):
        if not re.fullmatch(r"\|([^|~]+~\d\|)+", node):
            raise InvalidInput(f"Expected a cell like |op~0|+|op~0|op~1|+|op~0|op~1|op~2|. Got {text!r}.")
        for entry in node.strip("|").split("|"):
            operation, source = entry.rsplit("~", 1)
            options[edge_name(int(source), target)] = operation
            entries += 1
    if entries != len(NB201_EDGES) or set(options) != {edge_name(*edge) for edge in NB201_EDGES}:
        raise InvalidInput(f"Expected a cell like |op~0|+|op~0|op~1|+|op~0|op~1|op~2|. Got {text!r}.")
    return space.architecture(options)


def nb201_canonical(architecture: Architecture) -> str:
    """A key shared by isomorphic cells: 6,466 keys over the 15,625 cells.

    A node is the sorted sum of its inputs; skip passes the source's sum on, ``none`` and whatever is fed by
    nothing are written ``#`` (the benchmark's own convention, which keeps the number of terms).
    """
    nodes = ["0"]
    for target in (1, 2, 3):
        terms = []
        for source in range(target):
            operation = architecture.option(edge_name(source, target))
            if operation == "none" or nodes[source] == "#":
                terms.append("#")
            elif operation == "skip_connect":
                terms.append(nodes[source])
            else:
                terms.append(f"({nodes[source]})@{operation}")
        nodes.append("+".join(sorted(terms)))
    return nodes[3]
