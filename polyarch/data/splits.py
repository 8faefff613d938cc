"""Seeded splits that keep the proportions of the classes."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from polyarch.data.examples import Examples
from polyarch.errors import DataError, InvalidInput
from polyarch.randomness import generator_at

AnyExamples = TypeVar("AnyExamples", bound=Examples)


def stratified_indices(targets: Tensor, fraction: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """Splits (N,) labels into the sorted rows of the rest and of a part with ``fraction`` of every class.

    Every class that occurs gets at least one example on each side.
    """
    if not 0 < fraction < 1:
        raise InvalidInput(f"Expected a fraction between 0 and 1. Got {fraction}.")
    generator = generator_at(seed, "split")
    rest, part = [], []
    for label in targets.unique().tolist():
        rows = (targets == label).nonzero().flatten()
        if len(rows) < 2:
            raise DataError(f"Expected two or more examples of every class to split. Class {label} has {len(rows)}.")
        rows = rows[torch.randperm(len(rows), generator=generator)]
        size = min(max(round(fraction * len(rows)), 1), len(rows) - 1)
        part.append(rows[:size])
        rest.append(rows[size:])
    return torch.cat(rest).sort().values, torch.cat(part).sort().values


def stratified_split(data: AnyExamples, fraction: float, *, seed: int) -> tuple[AnyExamples, AnyExamples]:
    """Splits examples into the rest and a part with ``fraction`` of every class."""
    rest, part = stratified_indices(data.targets, fraction, seed=seed)
    return data.subset(rest), data.subset(part)
