"""Spaces of architectures: choices, members, moves and the notations of published benchmarks."""

from polyarch.spaces.architecture import Architecture, Choice, ChoiceKind, Gates, per_example_gates
from polyarch.spaces.cell_shape import cell_depths, operation_count, skip_count
from polyarch.spaces.chain_form import ChainForm
from polyarch.spaces.computation import Computation
from polyarch.spaces.darts import (
    DARTS_CELLS,
    DARTS_EDGES,
    DARTS_NODES,
    DARTS_OPERATIONS,
    S2_OPERATIONS,
    Edge,
    darts_edges,
    darts_space,
    darts_string,
    parse_darts,
)
from polyarch.spaces.macro import MACRO_OPERATIONS, MACRO_STAGES, macro_space, macro_string, parse_macro
from polyarch.spaces.nb101 import NB101_OPERATIONS, NB101_PARENTS, NB101Cell, nb101_cell, nb101_parents, nb101_space
from polyarch.spaces.nb201 import (
    NB201_CONVOLUTIONS,
    NB201_EDGES,
    NB201_NO_NONE,
    NB201_OPERATIONS,
    edge_name,
    nb201_space,
    nb201_string,
    parse_nb201,
)
from polyarch.spaces.space import Constraint, Space, mutate
from polyarch.spaces.wired import (
    erdos_renyi,
    module_sources,
    parse_wiring,
    residual_wiring,
    wired_shape,
    wired_space,
    wiring_string,
)

__all__ = [
    "DARTS_CELLS", "DARTS_EDGES", "DARTS_NODES", "DARTS_OPERATIONS", "MACRO_OPERATIONS", "MACRO_STAGES",
    "NB101_OPERATIONS", "NB101_PARENTS", "NB201_CONVOLUTIONS", "NB201_EDGES", "NB201_NO_NONE", "NB201_OPERATIONS",
    "S2_OPERATIONS", "Architecture", "ChainForm", "Choice", "ChoiceKind", "Computation", "Constraint", "Edge", "Gates",
    "NB101Cell", "Space", "cell_depths", "darts_edges", "darts_space", "darts_string", "edge_name", "erdos_renyi",
    "macro_space", "macro_string", "module_sources", "mutate", "nb101_cell", "nb101_parents", "nb101_space",
    "nb201_space", "nb201_string", "operation_count", "parse_darts", "parse_macro", "parse_nb201", "parse_wiring",
    "per_example_gates", "residual_wiring", "skip_count", "wired_shape", "wired_space", "wiring_string",
]  # fmt: skip
