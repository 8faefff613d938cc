"""The wired space: stages of modules in a chain, in which each module may also read earlier modules of its stage.

Deng et al. (2020), "Understanding and Exploring the Network with Stochastic Architectures", NeurIPS. The residual
wiring follows Zagoruyko & Komodakis (2016), "Wide Residual Networks", arXiv:1605.07146.
"""

from functools import lru_cache
from itertools import groupby

import torch
from torch import Generator

from polyarch.errors import ImpossibleSpace, InvalidInput
from polyarch.spaces.architecture import Architecture, Choice
from polyarch.spaces.nb201 import edge_name
from polyarch.spaces.space import REJECTION_LIMIT, Space

SKIP_OPTIONS = ("off", "on")
"""The options of a skip edge, written 0 and 1."""

SkipEdge = tuple[int, int, int]
"""Stage, source node and target module. Node 0 is the input of the stage, modules are numbered from 1."""


def wired_space(stages: int = 3, modules: int = 8) -> Space:
    """One choice, off or on, for every skip edge i -> j, i < j - 1, of every stage: 3 x 28 for 8 modules.

    The chain edges j - 1 -> j are always on. Choices have names like ``stage0_0->2``, ordered by stage, target, source.
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


def module_sources(architecture: Architecture) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The nodes that module 1, 2, ..., n of every stage reads, in ascending order."""
    stages, modules = wired_shape(architecture.space)
    read: list[list[list[int]]] = [[[] for _ in range(modules)] for _ in range(stages)]
    for (stage, source, target), on in zip(skip_edges(stages, modules), architecture.indices, strict=True):
        if on:
            read[stage][target - 1].append(source)
    return tuple(tuple((*sources, chain) for chain, sources in enumerate(stage)) for stage in read)


@lru_cache(maxsize=256)
def wired_shape(space: Space) -> tuple[int, int]:
    """The numbers of stages and of modules per stage of a wired space."""
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
    """The wiring of a residual network with two modules per block, except that modules average instead of summing.

    A block adds its output to its input, so the input of a block is the sum of the stage's input and of the outputs of
    all blocks before it: modules 1, 3, 5, ... read all even nodes before them, modules 2, 4, ... only the one before.
    (A stage passes on its last module without the sum that would follow it.)
    """
    on = [target % 2 == 1 and source % 2 == 0 for _, source, target in skip_edges(*wired_shape(space))]
    return Architecture(space, tuple(map(int, on)))


def erdos_renyi(space: Space, count: int, probability: float = 0.3, *, generator: Generator) -> list[Architecture]:
    """Draws distinct wirings in which every skip edge is on with this probability, independently of the others.

    Repeated draws are skipped. A longer list begins with the wirings of a shorter one.
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
    """The bits of every stage, ordered by target, then source: ``101-000-011`` for three modules per stage."""
    edges = skip_edges(*wired_shape(architecture.space))
    bits = groupby(zip(edges, architecture.indices, strict=True), key=lambda pair: pair[0][0])
    return "-".join("".join(str(on) for _, on in stage) for _, stage in bits)


def parse_wiring(text: str, space: Space | None = None) -> Architecture:
    """Reads the notation of `wiring_string`, by default for three stages of eight modules."""
    space = space or wired_space()
    stages, modules = wired_shape(space)
    parts = text.strip().split("-")
    length = modules * (modules - 1) // 2
    if len(parts) != stages or any(len(part) != length or not set(part) <= {"0", "1"} for part in parts):
        raise InvalidInput(f"Expected {stages} groups of {length} bits with '-' between them. Got {text!r}.")
    return Architecture(space, tuple(int(bit) for part in parts for bit in part))
