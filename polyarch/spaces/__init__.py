"""Spaces of architectures: choices, members, moves and notations."""

from polyarch.spaces.architecture import Architecture, Choice, Gates
from polyarch.spaces.moves import crossover, mutate, neighbours
from polyarch.spaces.names import (
    NB201_EDGES,
    NB201_OPERATIONS,
    edge_name,
    nb201_canonical,
    nb201_space,
    nb201_string,
    parse_nb201,
)
from polyarch.spaces.space import Constraint, Space

__all__ = [
    "NB201_EDGES",
    "NB201_OPERATIONS",
    "Architecture",
    "Choice",
    "Constraint",
    "Gates",
    "Space",
    "crossover",
    "edge_name",
    "mutate",
    "nb201_canonical",
    "nb201_space",
    "nb201_string",
    "neighbours",
    "parse_nb201",
]
