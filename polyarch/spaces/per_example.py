"""Architectures that differ from example to example, as gates."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from polyarch.errors import InvalidInput
from polyarch.spaces.architecture import Architecture, Gates


def per_example_gates(architectures: Sequence[Architecture]) -> Gates:
    """One-hot gates that give example b the b-th architecture: choice -> (B, O)."""
    if not architectures:
        raise InvalidInput("Expected an architecture for every example. Got none.")
    space = architectures[0].space
    for architecture in architectures:
        space.validate(architecture)
    columns = torch.tensor([architecture.indices for architecture in architectures]).unbind(1)  # of (B,)
    one_hots = {size: torch.eye(size) for size in {len(choice) for choice in space.choices}}
    return {choice.name: one_hots[len(choice)][column] for choice, column in zip(space.choices, columns, strict=True)}
