"""The wired space: stages of modules in a chain, in which each module may also read earlier modules of its stage.

Deng et al. (2020), "Understanding and Exploring the Network with Stochastic Architectures", NeurIPS. The residual
wiring follows Zagoruyko & Komodakis (2016), "Wide Residual Networks", arXiv:1605.07146.
"""

import re
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Generator

from polyarch.errors import ImpossibleSpace, InvalidInput
from polyarch.spaces.architecture import Architecture, Choice
from polyarch.spaces.space import REJECTION_LIMIT, Space

SKIP_OPTIONS = ("off", "on")
"""The options of a skip edge, written 0 and 1."""

SkipEdge = tuple[int, int, int]
"""Stage, source node and target. Node 0 is the input of the stage, modules are numbered from 1, and the output of a
stage of n modules is target n + 1."""


class WiredShape(NamedTuple):
    """Stages, modules per stage, and whether the output of a stage aggregates its modules."""

    stages: int
    modules: int
    aggregated: bool = True


def wired_space(stages: int = 3, modules: int = 8, *, aggregated: bool = True) -> Space:
    """One choice, off or on, for every skip edge i -> j, i < j - 1, of every stage: 3 x 36 for 8 modules.

    The chain edges j - 1 -> j are always on. The output of a stage reads like a further module: ``out`` in the names of
    choices, which are ``stage0_0->2`` and the like, ordered by stage, target, source.

    Args:
        aggregated: whether outputs are chosen as well; if not, a stage passes on its last module: 3 x 28 choices.
    """
    if stages < 1 or modules < 2:
        raise InvalidInput(f"Expected 1 or more stages of 2 or more modules. Got {stages=}, {modules=}.")
    shape = WiredShape(stages, modules, aggregated)
    choices = tuple(
        Choice(f"stage{stage}_{source}->{'out' if target > modules else target}", SKIP_OPTIONS, "wiring")
        for stage, source, target in skip_edges(shape)
    )
    return Space(f"wired{stages}x{modules}{'out' if aggregated else ''}", choices)


def skip_edges(shape: WiredShape) -> tuple[SkipEdge, ...]:
    """The edges in the order of their choices."""
    targets = range(2, _targets(shape) + 1)
    return tuple(
        (stage, source, target) for stage in range(shape.stages) for target in targets for source in range(target - 1)
    )


def _targets(shape: WiredShape) -> int:
    """What reads nodes in a stage: modules and, if it aggregates them, the output."""
    return shape.modules + shape.aggregated


def module_sources(architecture: Architecture) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The nodes that module 1, 2, ..., n of every stage and its output, if aggregated, read, in ascending order."""
    shape = wired_shape(architecture.space)
    read: list[list[list[int]]] = [[[] for _ in range(_targets(shape))] for _ in range(shape.stages)]
    for (stage, source, target), on in zip(skip_edges(shape), architecture.indices, strict=True):
        if on:
            read[stage][target - 1].append(source)
    return tuple(tuple((*sources, chain) for chain, sources in enumerate(stage)) for stage in read)


@lru_cache(maxsize=256)
def wired_shape(space: Space) -> WiredShape:
    """The shape of a wired space."""
    last = re.fullmatch(r"stage([0-9]+)_([0-9]+)->(out|[0-9]+)", space.choice_names[-1]) if space.choices else None
    if last is not None:
        stage, source, target = last.groups()
        aggregated = target == "out"
        shape = WiredShape(int(stage) + 1, int(source) + (1 if aggregated else 2), aggregated)
        if shape.modules > 1 and wired_space(*shape[:2], aggregated=aggregated) == space:
            return shape
    raise InvalidInput(f"Expected a wired space. Got {space.name!r}.")


def residual_wiring(space: Space) -> Architecture:
    """The wiring of a residual network with two modules per block, except that features are averaged, not summed.

    A block adds its output to its input, so the input of a block is the sum of the stage's input and of the outputs of
    all blocks before it: modules 1, 3, 5, ... and the output of the stage read all even nodes before them, modules 2,
    4, ... only the one before. As every module normalises what it computes, the scale of the mean is lost in it.
    (A space without outputs passes on the last module without the sum that would follow it.)
    """
    shape = wired_shape(space)
    on = [source % 2 == 0 and (target % 2 == 1 or target > shape.modules) for _, source, target in skip_edges(shape)]
    return Architecture(space, tuple(map(int, on)))


def erdos_renyi(space: Space, count: int, probability: float = 0.3, *, generator: Generator) -> list[Architecture]:
    """Draws distinct wirings in which every skip edge is on with this probability, independently of the others.

    Repeated draws are skipped. A longer list begins with the wirings of a shorter one.
    """
    edges = len(skip_edges(wired_shape(space)))
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
    """The bits of every stage, by target, then source: ``101-000-011`` for two modules per stage and its output."""
    edges = skip_edges(wired_shape(architecture.space))
    bits = groupby(zip(edges, architecture.indices, strict=True), key=lambda pair: pair[0][0])
    return "-".join("".join(str(on) for _, on in stage) for _, stage in bits)


def parse_wiring(text: str, space: Space | None = None) -> Architecture:
    """Reads the notation of `wiring_string`, by default for three stages of eight modules."""
    space = space or wired_space()
    shape = wired_shape(space)
    stages, targets = shape.stages, _targets(shape)
    parts = text.strip().split("-")
    length = targets * (targets - 1) // 2
    if len(parts) != stages or any(len(part) != length or not set(part) <= {"0", "1"} for part in parts):
        raise InvalidInput(f"Expected {stages} groups of {length} bits with '-' between them. Got {text!r}.")
    return Architecture(space, tuple(int(bit) for part in parts for bit in part))
