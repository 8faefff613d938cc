"""Moves between architectures: neighbours, mutation, crossover; all results satisfy the constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Generator

from polyarch.errors import ImpossibleSpace, InvalidInput
from polyarch.spaces.architecture import Architecture
from polyarch.spaces.space import REJECTION_LIMIT


def neighbours(architecture: Architecture) -> Iterator[Architecture]:
    """Yields all members that differ in exactly one choice; without constraints there are sum_c (O_c - 1)."""
    for position, choice in enumerate(architecture.space.choices):
        for index in range(len(choice)):
            if index != architecture.indices[position]:
                moved = _with_index(architecture, position, index)
                if moved in architecture.space:
                    yield moved


def mutate(
    architecture: Architecture,
    generator: Generator,
    *,
    accept: Callable[[Architecture], bool] | None = None,
) -> Architecture:
    """Draws a neighbour: a choice with more than one option, then another option, both uniformly.

    ``accept`` restricts the result further, e.g. to architectures within limits or not seen before.
    """
    space = architecture.space
    movable = [position for position, choice in enumerate(space.choices) if len(choice) > 1]
    if not movable:
        raise ImpossibleSpace(f"Expected space {space.name!r} to have a choice with two options to mutate. Got none.")
    for _ in range(REJECTION_LIMIT):
        position = movable[int(torch.randint(len(movable), (), generator=generator))]
        others = len(space.choices[position]) - 1
        step = 1 + int(torch.randint(others, (), generator=generator))
        index = (architecture.indices[position] + step) % (others + 1)
        moved = _with_index(architecture, position, index)
        if moved in space and (accept is None or accept(moved)):
            return moved
    raise ImpossibleSpace(f"Expected an acceptable neighbour of {architecture.key}. Found none.")


def crossover(first: Architecture, second: Architecture, generator: Generator) -> Architecture:
    """Uniform crossover: takes every choice from either parent with probability 1/2."""
    if first.space != second.space:
        raise InvalidInput(f"Expected parents of one space. Got {first.space.name!r} and {second.space.name!r}.")
    for _ in range(REJECTION_LIMIT):
        coins = torch.randint(2, (len(first.indices),), generator=generator).tolist()
        pairs = zip(first.indices, second.indices, coins, strict=True)
        child = Architecture(first.space, tuple(b if coin else a for a, b, coin in pairs))
        if child in first.space:
            return child
    raise ImpossibleSpace(f"Expected a child of {first.key} and {second.key} in the space. Found none.")


def _with_index(architecture: Architecture, position: int, index: int) -> Architecture:
    indices = architecture.indices
    return Architecture(architecture.space, (*indices[:position], index, *indices[position + 1 :]))
