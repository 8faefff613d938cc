"""The DARTS space: a normal and a reduction cell of four nodes with two inputs each, and the genotype notation.

Liu, Simonyan & Yang (2019), "DARTS: Differentiable Architecture Search", arXiv:1806.09055. Spaces S2, S3: Zela et al.
(2020), "Understanding and Robustifying Differentiable Architecture Search", arXiv:1909.09656.
"""

import ast
from functools import lru_cache
from itertools import combinations

from polyarch.errors import InvalidInput
from polyarch.spaces.architecture import Architecture, Choice
from polyarch.spaces.computation import Computation, Sum
from polyarch.spaces.space import Space, space_name

DARTS_OPERATIONS = (
    "skip_connect",
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "dil_conv_5x5",
    "max_pool_3x3",
    "avg_pool_3x3",
)
S2_OPERATIONS = ("skip_connect", "sep_conv_3x3")
"""The operations of the space S2, in which DARTS fails; S3 has the same and ``none``."""
DARTS_CELLS = ("normal", "reduce")
"""The two kinds of cells, as genotypes name them."""
DARTS_NODES = (2, 3, 4, 5)
"""The nodes that compute something; nodes 0 and 1 are the outputs of the cell before last and of the last cell."""

Edge = tuple[int, int]
"""Source node and target node."""

DARTS_EDGES: tuple[Edge, ...] = tuple((source, target) for target in DARTS_NODES for source in range(target))
"""The 14 edges in the order of the DARTS code: by target, then by source."""

_FIELDS = {f"{cell}{ending}" for cell in DARTS_CELLS for ending in ("", "_concat")}
_EXAMPLE = "Genotype(normal=[('sep_conv_3x3', 0), ...], normal_concat=range(2, 6), reduce=[...], reduce_concat=...)"


def darts_space(operations: tuple[str, ...] = DARTS_OPERATIONS, *, none: bool | None = None) -> Space:
    """The space of pairs of a normal and a reduction cell: (1 * 3 * 6 * 10 * O^8)^2, or 1.08e18 for all operations.

    Node n of a cell has three choices: which two earlier nodes feed it (``normal3_inputs`` with options like ``0,2``),
    and the operation on the edge from the first and from the second of them (``normal3_first``, ``normal3_second``).

    Args:
        operations: a subset of the operations without ``none``, e.g. ``S2_OPERATIONS``.
        none: whether a differentiable search also weighs ``none`` on every edge. By default it does except in S2;
            ``darts_space(S2_OPERATIONS, none=True)`` is S3. The architectures are the same.
    """
    name = space_name("darts", operations, DARTS_OPERATIONS)
    choices = []
    for cell in DARTS_CELLS:
        for node in DARTS_NODES:
            pairs = tuple(f"{first},{second}" for first, second in combinations(range(node), 2))
            choices.append(Choice(f"{cell}{node}_inputs", pairs, "wiring"))
            choices.extend(Choice(f"{cell}{node}_{which}", operations) for which in ("first", "second"))
    weighs_none = set(operations) != set(S2_OPERATIONS) if none is None else none
    return Space(name, tuple(choices), canonical=darts_canonical, weighs_none=weighs_none)


def darts_edges(architecture: Architecture, cell: str) -> dict[Edge, str]:
    """The eight edges of a cell that carry an operation, in order, with their operations."""
    edges = {}
    for node in DARTS_NODES:
        first, second = map(int, architecture.option(f"{cell}{node}_inputs").split(","))
        edges[first, node] = architecture.option(f"{cell}{node}_first")
        edges[second, node] = architecture.option(f"{cell}{node}_second")
    return edges


def darts_canonical(architecture: Architecture) -> str:
    """The `Computation` of both cells, whatever the order of their nodes.

    The output of a cell concatenates its nodes, and whatever reads it has weights for every channel, so their order is
    a renaming of weights.
    """
    return "|".join(_cell_key(cell, tuple(darts_edges(architecture, cell).items())) for cell in DARTS_CELLS)


@lru_cache(maxsize=65536)
def _cell_key(cell: str, edges: tuple[tuple[Edge, str], ...]) -> str:
    form = Computation()
    nodes: dict[int, Sum] = {0: form.input("c0"), 1: form.input("c1"), **dict.fromkeys(DARTS_NODES, ())}
    for (source, target), operation in edges:
        resizes = cell == "reduce" and source < 2  # then a skip has weights, too
        value = nodes[source]
        if operation != "skip_connect" or resizes:
            value = form.operation(operation, value)
        nodes[target] += value
    return form.key(nodes[node] for node in DARTS_NODES)


def darts_string(architecture: Architecture) -> str:
    """The genotype as the DARTS code prints it, with the inputs of every node in ascending order."""
    parts = []
    for cell in DARTS_CELLS:
        pairs = [(operation, source) for (source, _), operation in darts_edges(architecture, cell).items()]
        parts.append(f"{cell}={pairs}, {cell}_concat=range(2, 6)")
    return f"Genotype({', '.join(parts)})"


def parse_darts(text: str, space: Space | None = None) -> Architecture:
    """Reads a genotype without evaluating code; the two inputs of a node may come in either order."""
    space = space or darts_space()
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "Genotype" or call.args:
            raise ValueError
        fields = {keyword.arg: keyword.value for keyword in call.keywords}
        if len(call.keywords) != len(fields) or set(fields) != _FIELDS:
            raise ValueError
        options = {}
        for cell in DARTS_CELLS:
            _require_all_nodes(fields[f"{cell}_concat"])
            options.update(_options(cell, ast.literal_eval(fields[cell])))
    except InvalidInput:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        shown = text if len(text) <= 200 else text[:200] + "..."
        raise InvalidInput(f"Expected a genotype like {_EXAMPLE}. Got {shown!r}.") from None
    return space.architecture(options)


def _options(cell: str, pairs: object) -> dict[str, str]:
    """Choice -> option, from eight pairs (operation, source node), two per node."""
    if not isinstance(pairs, list | tuple) or len(pairs) != 2 * len(DARTS_NODES):
        raise ValueError
    options = {}
    for position, node in enumerate(DARTS_NODES):
        (first, first_source), (second, second_source) = pairs[2 * position : 2 * position + 2]
        if not all(type(source) is int and 0 <= source < node for source in (first_source, second_source)):
            raise ValueError
        if not isinstance(first, str) or not isinstance(second, str):
            raise ValueError
        if first_source == second_source:
            raise InvalidInput(f"Expected two different inputs of {cell} node {node}. Got {first_source} twice.")
        if first_source > second_source:
            first, first_source, second, second_source = second, second_source, first, first_source
        options[f"{cell}{node}_inputs"] = f"{first_source},{second_source}"
        options[f"{cell}{node}_first"], options[f"{cell}{node}_second"] = first, second
    return options


def _require_all_nodes(concat: ast.expr) -> None:
    """Refuses a cell that does not concatenate all of its nodes: ``range(2, 6)``, or a list of them."""
    if isinstance(concat, ast.Call) and ast.unparse(concat.func) == "range" and not concat.keywords:
        nodes = tuple(range(*(ast.literal_eval(bound) for bound in concat.args)))
    else:
        nodes = tuple(ast.literal_eval(concat))
    if nodes != DARTS_NODES:
        raise InvalidInput(f"Expected cells that concatenate their nodes {DARTS_NODES}. Got {nodes}.")
