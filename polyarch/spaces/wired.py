"""The wired space: stages of modules in a chain, each of which may also read earlier modules of its stage."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby

import torch
from torch import Generator

from polyarch.errors import ImpossibleSpace, InvalidInput
from polyarch.spaces.architecture import Architecture, Choice
from polyarch.spaces.nb201 import edge_name
from polyarch.spaces.space import REJECTION_LIMIT, Space

SKIP_OPTIONS = ("off", "on")
"""What a skip edge can be, written 0 and 1."""

SkipEdge = tuple[int, int, int]
"""Stage, source node and target module. Node 0 is the input of the stage, modules are numbered from 1."""

Sources = tuple[int, ...]
"""The nodes that a module reads, in ascending order; the last of them is the node before it."""


def wired_space(stages: int = 3, modules: int = 8) -> Space:
    """One bit for every skip edge i -> j, i < j - 1, of every stage: 28 each with 8 modules, 84 in all.

    The chain edges j - 1 -> j are always on and no choice. Choices are named like ``stage0_0->2``, in the order of
    stages, targets, sources.
    """
    if stages < 1 or modules < 2:
        raise InvalidInput(f"Expected 1 or more stages of 2 or more modules. Got {stages=}, {modules=}.")
    choices = tuple(
        Choice(f"stage{stage}_{edge_name(source, target)}", SKIP_OPTIONS, "wiring")
        for stage, source, target in skip_edges(stages, modules)
    )
    return Space(f"wired{stages}x{modules}", choices)


def skip_edges(stages: int, modules: int) -> tuple[SkipEdge, ...]:
    """The edges in the order of their choices."""
    targets = range(2, modules + 1)
    return tuple(
        (stage, source, target) for stage in range(stages) for target in targets for source in range(target - 1)
    )


def module_sources(architecture: Architecture) -> tuple[tuple[Sources, ...], ...]:
    """For every stage, for its modules 1..n, the nodes that they read."""
    stages, modules = wired_shape(architecture.space)
    read: list[list[list[int]]] = [[[] for _ in range(modules)] for _ in range(stages)]
    for (stage, source, target), on in zip(skip_edges(stages, modules), architecture.indices, strict=True):
        if on:
            read[stage][target - 1].append(source)
    return tuple(tuple((*sources, chain) for chain, sources in enumerate(stage)) for stage in read)


@lru_cache(maxsize=256)
def wired_shape(space: Space) -> tuple[int, int]:
    """How many stages a wired space has, and how many modules each of them."""
    try:
        *_, last = space.choice_names
        stage, target = last.removeprefix("stage").split("_")[0], last.split("->")[1]
        shape = int(stage) + 1, int(target)
        if wired_space(*shape) == space:
            return shape
    except (IndexError, ValueError):
        pass
    raise InvalidInput(f"Expected a wired space. Got {space.name!r}.")


def residual_wiring(space: Space) -> Architecture:
    """The wiring of a residual network with two modules per block, up to the scale that a mean gives a sum.

    A block adds its output to its input, so the input of a block is the sum of the stage's input and of the outputs of
    all blocks before it: modules 1, 3, 5, ... read all even nodes before them, modules 2, 4, ... only the one before.
    (A stage passes its last module on, without the sum that would follow it.)
    """
    on = [target % 2 == 1 and source % 2 == 0 for _, source, target in skip_edges(*wired_shape(space))]
    return Architecture(space, tuple(map(int, on)))


def erdos_renyi(space: Space, count: int, probability: float = 0.3, *, generator: Generator) -> list[Architecture]:
    """Distinct wirings in which every skip edge is on with this probability, independently of all others.

    Equal draws are left out. The first wirings of a longer list are those of a shorter one.
    """
    edges = len(skip_edges(*wired_shape(space)))
    if count < 1 or not 0 <= probability <= 1:
        raise InvalidInput(f"Expected 1 or more wirings and a probability in 0..1. Got {count=}, {probability=}.")
    found: dict[Architecture, None] = {}
    misses = 0
    while len(found) < count and misses < REJECTION_LIMIT:
        on = torch.rand(edges, generator=generator) < probability
        wiring = Architecture(space, tuple(on.int().tolist()))
        misses = misses + 1 if wiring in found else 0
        found[wiring] = None
    if len(found) < count:
        raise ImpossibleSpace(
            f"Expected {count} different wirings of space {space.name!r} with {probability=}. "
            f"Found {len(found)}, and no other in {REJECTION_LIMIT:,} draws."
        )
    return list(found)


def wiring_string(architecture: Architecture) -> str:
    """The bits of every stage in the order of targets, then sources: ``101-000-011`` for three modules a stage."""
    edges = skip_edges(*wired_shape(architecture.space))
    bits = groupby(zip(edges, architecture.indices, strict=True), key=lambda pair: pair[0][0])
    return "-".join("".join(str(on) for _, on in stage) for _, stage in bits)


def parse_wiring(text: str, space: Space | None = None) -> Architecture:
    """Reads the notation of `wiring_string`; by default of the space of three stages with eight modules."""
    space = space or wired_space()
    stages, modules = wired_shape(space)
    parts = text.strip().split("-")
    length = modules * (modules - 1) // 2
    if len(parts) != stages or any(len(part) != length or not set(part) <= {"0", "1"} for part in parts):
        raise InvalidInput(f"Expected {stages} groups of {length} bits with '-' between them. Got {text!r}.")
    return Architecture(space, tuple(int(bit) for part in parts for bit in part))
