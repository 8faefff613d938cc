"""The three NAS-Bench-1shot1 spaces inside NAS-Bench-101: operations on nodes, and a fixed number of parents per node.

Node 0 is the input of the cell, the last node its output. Node j of space s has NB101_PARENTS[s][j] parents among the
nodes before it.

Ying et al. (2019), "NAS-Bench-101: Towards Reproducible Neural Architecture Search", arXiv:1902.09635; Zela, Siems &
Hutter (2020), "NAS-Bench-1Shot1: Benchmarking and Dissecting One-shot Neural Architecture Search", arXiv:2001.10422.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from polyarch.errors import InvalidInput
from polyarch.spaces.architecture import Architecture, Choice
from polyarch.spaces.space import Space

NB101_OPERATIONS = ("conv1x1-bn-relu", "conv3x3-bn-relu", "maxpool3x3")
NB101_PARENTS = {1: (0, 1, 2, 2, 2, 2), 2: (0, 1, 1, 2, 2, 3), 3: (0, 1, 1, 1, 2, 2, 2)}
"""Space -> the number of parents of every node; the first is the input, the last the output."""
NB101_NODES, NB101_EDGES = 7, 9
"""The most nodes and edges that a cell of the benchmark has."""

_HASHED_OPERATIONS = ("conv3x3-bn-relu", "conv1x1-bn-relu", "maxpool3x3")
"""The order in which the benchmark numbers operations for its hashes."""

Matrix = tuple[tuple[int, ...], ...]
"""An upper-triangular adjacency matrix: entry (i, j) is 1 if node i feeds node j."""


@dataclass(frozen=True, slots=True)
class NB101Cell:
    """A cell in the format of NAS-Bench-101: matrix (V, V) and V labels, ``input``, the operations, ``output``."""

    matrix: Matrix
    operations: tuple[str, ...]

    def __post_init__(self) -> None:
        nodes, labels = len(self.matrix), self.operations
        if nodes < 2 or any(len(row) != nodes for row in self.matrix) or len(labels) != nodes:
            raise InvalidInput(
                f"Expected a square matrix and an operation for each of 2 or more nodes. Got {nodes} rows, "
                f"{len(labels)} operations."
            )
        entries = [(i, j, entry) for i, row in enumerate(self.matrix) for j, entry in enumerate(row)]
        if any(entry not in ((0, 1) if i < j else (0,)) for i, j, entry in entries):
            raise InvalidInput(f"Expected an upper-triangular matrix of zeros and ones. Got {self.matrix}.")
        if labels[0] != "input" or labels[-1] != "output" or not set(labels[1:-1]) <= set(NB101_OPERATIONS):
            raise InvalidInput(f"Expected 'input', operations out of {NB101_OPERATIONS}, 'output'. Got {list(labels)}.")

    @property
    def edges(self) -> int:
        """The number of edges."""
        return sum(map(sum, self.matrix))

    def parents(self, node: int) -> tuple[int, ...]:
        """The nodes that feed a node."""
        return tuple(source for source in range(node) if self.matrix[source][node])

    def pruned(self) -> "NB101Cell":
        """The cell without nodes that lie on no path from input to output, which is how the benchmark stores cells."""
        last = len(self.matrix) - 1
        fed, used = {0}, {last}
        for node in range(1, last + 1):
            if fed.intersection(self.parents(node)):
                fed.add(node)
        for node in range(last, 0, -1):
            if node in used:
                used.update(self.parents(node))
        if last not in fed:
            raise InvalidInput(f"Expected a path from the input to the output. Got {self.matrix}.")
        kept = sorted(fed & used)
        matrix = tuple(tuple(self.matrix[i][j] for j in kept) for i in kept)
        cell = NB101Cell(matrix, tuple(self.operations[node] for node in kept))
        if len(kept) > NB101_NODES or cell.edges > NB101_EDGES:
            raise InvalidInput(
                f"Expected a cell of at most {NB101_NODES} nodes and {NB101_EDGES} edges. "
                f"Got {len(kept)} nodes, {cell.edges} edges."
            )
        return cell

    def hash(self) -> str:
        """The benchmark's key of the pruned cell (``hash_module``), equal for isomorphic cells.

        Hashes every node with its degrees and label, then V times with the sorted hashes of its neighbours.
        """
        cell = self.pruned()
        nodes, matrix = range(len(cell.matrix)), cell.matrix
        labels = [-1, *(_HASHED_OPERATIONS.index(operation) for operation in cell.operations[1:-1]), -2]
        degrees = [(sum(matrix[node]), sum(row[node] for row in matrix)) for node in nodes]
        hashes = [_md5(str((*degrees[node], labels[node]))) for node in nodes]
        for _ in nodes:
            hashes = [
                _md5(
                    "|".join([
                        "".join(sorted(hashes[other] for other in nodes if matrix[other][node])),
                        "".join(sorted(hashes[other] for other in nodes if matrix[node][other])),
                        hashes[node],
                    ])
                )
                for node in nodes
            ]  # fmt: skip
        return _md5(str(sorted(hashes)))


def nb101_space(space: int) -> Space:
    """One of the NAS-Bench-1shot1 spaces 1, 2 and 3.

    Every node j between input and output has the choices ``node<j>_parents`` (options like ``0,2``) and
    ``node<j>_operation``; the output has ``output_parents``. The spaces have 14,580, 29,160 and 1,312,200 combinations.
    The paper counts 6,240, 29,160 and 363,648 because in spaces 1 and 3 (but not in 2, which would have 16,632) it
    ignores the operations of nodes that feed no other node. NAS-Bench-101 distinguishes even fewer networks, because
    it removes such loose ends and merges isomorphic cells: see ``canonical``.
    """
    if space not in NB101_PARENTS:
        raise InvalidInput(f"Expected space 1, 2 or 3 of NAS-Bench-1shot1. Got {space!r}.")
    counts = NB101_PARENTS[space]
    choices = []
    for node, count in enumerate(counts[1:], start=1):
        options = tuple(",".join(map(str, parents)) for parents in combinations(range(node), count))
        if node == len(counts) - 1:
            choices.append(Choice("output_parents", options, "wiring"))
        else:
            choices.append(Choice(f"node{node}_parents", options, "wiring"))
            choices.append(Choice(f"node{node}_operation", NB101_OPERATIONS, "node_operation"))
    return Space(f"nb101-{space}", tuple(choices), canonical=nb101_canonical)


def nb101_cell(architecture: Architecture) -> NB101Cell:
    """The cell of an architecture with all of its nodes, including loose ends."""
    parents = nb101_parents(architecture)
    nodes = range(len(parents))
    matrix = tuple(tuple(int(source in parents[target]) for target in nodes) for source in nodes)
    operations = (architecture.option(f"node{node}_operation") for node in nodes[1:-1])
    return NB101Cell(matrix, ("input", *operations, "output"))


def nb101_parents(architecture: Architecture) -> tuple[tuple[int, ...], ...]:
    """The parents of every node; the input has none."""
    wiring = [choice.name for choice in architecture.space.choices if choice.kind == "wiring"]
    return ((), *(parents_of(architecture.option(name)) for name in wiring))


def parents_of(option: str) -> tuple[int, ...]:
    """The nodes that a wiring option such as ``0,2`` names."""
    return tuple(map(int, option.split(",")))


def nb101_canonical(architecture: Architecture) -> str:
    """The hash under which NAS-Bench-101 lists this network, the same for all architectures of one network."""
    return _cell_hash(nb101_cell(architecture).pruned())


@lru_cache(maxsize=65536)
def _cell_hash(cell: NB101Cell) -> str:
    return cell.hash()


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
