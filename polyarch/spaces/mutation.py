"""Mutation of architectures within their constraints."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator

from polyarch.errors import ImpossibleSpace
from polyarch.spaces.architecture import Architecture
from polyarch.spaces.space import REJECTION_LIMIT


def mutate(
    architecture: Architecture, generator: Generator, *, accept: Callable[[Architecture], bool] | None = None
) -> Architecture:
    """Draws a member that differs in one choice: a choice with more than one option, then another option, uniformly.

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
        indices = architecture.indices
        moved = Architecture(space, (*indices[:position], index, *indices[position + 1 :]))
        if moved in space and (accept is None or accept(moved)):
            return moved
    raise ImpossibleSpace(f"Expected an acceptable mutation of {architecture.key}. Found none.")
