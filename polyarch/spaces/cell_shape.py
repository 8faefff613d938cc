"""Describes architectures by their number of skips and the depth of their cells.

Depth of cells: Shu, Wang & Cai (2020), "Understanding Architectures Learnt by Cell-based Neural Architecture Search",
arXiv:1909.09569.
"""

from collections.abc import Iterable

from polyarch.spaces.architecture import Architecture
from polyarch.spaces.darts import DARTS_CELLS, DARTS_NODES, Edge, darts_edges
from polyarch.spaces.nb101 import nb101_parents
from polyarch.spaces.nb201 import NB201_EDGES, edge_name


def operation_count(architecture: Architecture) -> int:
    """The number of chosen operations, without wirings: 6 in a NAS-Bench-201 cell, 16 in the two cells of DARTS."""
    return len(_operations(architecture))


def skip_count(architecture: Architecture) -> int:
    """The number of operations that pass their input on: ``identity`` and all whose names contain ``skip``.

    Skips that do not lie on a path to the output count, too.
    """
    names = [option.lower() for option in _operations(architecture)]
    return sum(name == "identity" or "skip" in name for name in names)


def cell_depths(architecture: Architecture) -> dict[str, int]:
    """The number of edges on the longest path from an input of a cell to its output, for every kind of cell.

    Edges with a skip count, edges with ``none`` do not. A DARTS cell has a depth of 2 to 5, because an edge leads from
    each of its nodes to the output; a NAS-Bench-201 cell has up to 3, and 0 if nothing reaches the output. The keys are
    ``normal`` and ``reduce`` in DARTS spaces and ``cell`` in NAS-Bench-201 and 1shot1; other spaces have none.
    """
    names = set(architecture.space.choice_names)
    if names == {edge_name(*edge) for edge in NB201_EDGES}:
        edges = [edge for edge in NB201_EDGES if architecture.option(edge_name(*edge)) != "none"]
        return {"cell": _longest(edges, inputs=(0,), output=3)}
    if {f"{cell}{node}_inputs" for cell in DARTS_CELLS for node in DARTS_NODES} <= names:
        output = DARTS_NODES[-1] + 1
        joined = [(node, output) for node in DARTS_NODES]
        return {
            cell: _longest([*darts_edges(architecture, cell), *joined], inputs=(0, 1), output=output)
            for cell in DARTS_CELLS
        }
    if "output_parents" in names:
        parents = nb101_parents(architecture)
        edges = [(source, target) for target, sources in enumerate(parents) for source in sources]
        return {"cell": _longest(edges, inputs=(0,), output=len(parents) - 1)}
    return {}


def _operations(architecture: Architecture) -> list[str]:
    return [architecture.option(choice.name) for choice in architecture.space.choices if choice.kind != "wiring"]


def _longest(edges: Iterable[Edge], *, inputs: tuple[int, ...], output: int) -> int:
    """Edges lead from smaller to larger nodes, so sorting by target visits a node after all paths to its sources."""
    depths = dict.fromkeys(inputs, 0)
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        if source in depths:
            depths[target] = max(depths.get(target, 0), depths[source] + 1)
    return depths.get(output, 0)
