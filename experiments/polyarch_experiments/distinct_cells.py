"""The distinct networks of NAS-Bench-201 that experiments rank, and how typical of the whole table they are."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

from polyarch.errors import InvalidInput
from polyarch.randomness import derive_seed, generator_at
from polyarch.ranking.correlations import correlation
from polyarch.spaces import Architecture, nb201_space
from polyarch.tables import NASBench201
from polyarch.truths.equivalence import equivalence_classes
from polyarch_experiments.experiment import Table

TRUTHS = {
    "cifar10": ("cifar10_test_200", "CIFAR-10"),
    "cifar100": ("cifar100_test_200", "CIFAR-100"),
    "imagenet16": ("imagenet16_test_200", "ImageNet16-120"),
}
"""Columns of the table and what people call their data."""
SOURCES = {"cifar100": "cifar100", "imagenet16_120": "imagenet16"}
"""The truths of networks trained on data of these names; those of all others are CIFAR-10's."""
OTHER_DATA = (
    "the images of CIFAR-100 and ImageNet16-120, with `--preset paper --set run.data.split=stratified --set "
    "run.data.name=cifar100`, and the same with `imagenet16_120`"
)
"""What a test on the other data of NAS-Bench-201 takes."""
DRAWS = 1000
"""Random sets that a set is compared with."""


def distinct_cells(count: int, skip: int = 0) -> list[Architecture]:
    """Networks of different canonical form in one fixed random order, every network as likely as any other.

    Args:
        skip: how many of the order are left to others.
    """
    ordered = _ordered()
    if skip + count > len(ordered):
        raise InvalidInput(f"Expected up to {len(ordered) - skip:,} distinct networks. Got {count:,}.")
    return list(ordered[skip : skip + count])


@cache
def _ordered() -> tuple[Architecture, ...]:
    networks = [same[0] for same in equivalence_classes(nb201_space(), "all", seed=0)]
    order = torch.randperm(len(networks), generator=generator_at(0, "distinct cells", 0))
    return tuple(networks[position] for position in order.tolist())


def truth_on(data: str) -> str:
    """Which of `TRUTHS` has the accuracies of networks that are trained on data of this name."""
    return SOURCES.get(data, "cifar10")


def describe_cells(count: int, skip: int = 0) -> dict[str, Any]:
    """The true accuracies (percent) of the cells by data set, and how typical of all networks they are.

    ``typical`` has, by data set, Spearman's correlation of parameters and accuracy over all distinct networks and over
    the cells, and the share of random sets of as many networks in which it is lower.
    """
    table, everything = NASBench201.load(), _ordered()
    cells = distinct_cells(count, skip)
    positions = np.arange(skip, skip + count)
    sizes = np.array([table.value(one, "params_cifar10") for one in everything])
    generator = np.random.default_rng(derive_seed(0, "sets of cells"))
    sets = [generator.choice(len(everything), count, replace=False) for _ in range(DRAWS)]
    typical = {}
    for name, (column, _) in TRUTHS.items():
        truth = np.array([table.value(one, column) for one in everything])
        own, *drawn = (correlation("spearman", sizes[rows], truth[rows]) or 0.0 for rows in (positions, *sets))
        whole = correlation("spearman", sizes, truth) or 0.0
        lower = float(np.mean(np.array(drawn) < own))
        typical[name] = {"networks": len(everything), "whole": whole, "cells": own, "lower": lower}
    truths = {
        cell.key: {name: round(table.value(cell, column), 3) for name, (column, _) in TRUTHS.items()} for cell in cells
    }
    return {"truths": truths, "typical": typical}


def typicality(described: dict[str, Any]) -> dict[str, Table]:
    """How typical the cells are, by caption."""
    rows = [
        [TRUTHS[name][1], f"{found['whole']:.3f}", f"{found['cells']:.3f}", f"{100 * found['lower']:.0f} %"]
        for name, found in described["typical"].items()
    ]
    n, networks = len(described["truths"]), next(iter(described["typical"].values()))["networks"]
    caption = (
        f"How typical the {n} cells are of the {networks:,} distinct networks of NAS-Bench-201: Spearman of "
        f"parameters and test accuracy, and the share of {DRAWS:,} random sets of {n} in which it is lower"
    )
    return {caption: Table(["accuracy on", "all networks", "these cells", "sets with a lower one"], rows)}
