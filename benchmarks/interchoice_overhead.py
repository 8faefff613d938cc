"""The price of inter-choice weights: a single-path step with a bias over the same step of the plain supernet."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from measure import Goal, interleaved, medians, options, report
from supernet_step import BATCH, CHANNELS, SEED, Sides, compare, random_batch, sgd, step

from polyarch.nn import InterChoice
from polyarch.randomness import global_seed
from polyarch.strategies import OneShot
from polyarch.supernets import ChainSupernet, NB201Supernet, Supernet

NAME = "interchoice_overhead"
GOAL = Goal("<=", 1.03)
CHAIN_GOAL = Goal("<=", 1.01)
BIAS = InterChoice("bias")

MakeNet = Callable[[InterChoice | None], Supernet]


def cells(interchoice: InterChoice | None) -> Supernet:
    return NB201Supernet(channels=CHANNELS, cells=2, interchoice=interchoice)


def chain(interchoice: InterChoice | None) -> Supernet:
    return ChainSupernet(strides=(1, 2, 1, 2, 1, 2), interchoice=interchoice)


def make_strategies(make: MakeNet, kinds: Sequence[InterChoice | None]) -> list[OneShot]:
    """With the same weights, because a bias takes no random numbers."""
    made = []
    for interchoice in kinds:
        with global_seed(SEED, "weights"):
            net = make(interchoice)
        made.append(OneShot(net, sgd(net)))
    return made


def against_plain(make: MakeNet, size: int) -> Callable[[int], Sides]:
    """With new networks for every path: where their weights lie in memory moves a ratio by some percent."""
    batch = random_batch(size)

    def sides(path: int) -> Sides:
        plain, bias = make_strategies(make, (None, BIAS))
        return {"plain": step(plain, batch, path), "bias": step(bias, batch, path)}

    return sides


def measured(make: MakeNet, sizes: Sequence[int], paths: int, rounds: int) -> list[dict[str, Any]]:
    """A row per image size, the ratio summed over the paths."""
    rows = []
    for size in sizes:
        seconds = compare(paths, rounds, against_plain(make, size))
        row = {"size": size, "ratio": round(sum(seconds["bias"]) / sum(seconds["plain"]), 4)}
        print(make.__name__, row)
        rows.append({**row, "median_seconds_by_path": seconds})
    return rows


def walk(optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad(set_to_none=True)
    optimizer.step()


def walk_seconds(rounds: int) -> dict[str, float]:
    """What an optimiser step and clearing gradients cost when no parameter has a gradient: the walk alone."""
    kinds = {"plain": None, "one before": BIAS, "two before": InterChoice("bias", 2)}
    sides: Sides = {}
    for name, strategy in zip(kinds, make_strategies(cells, list(kinds.values())), strict=True):
        sides[name] = partial(walk, strategy.optimizer)
    interleaved(sides, 2)  # warm-up
    return {name: round(value, 6) for name, value in medians(interleaved(sides, rounds)).items()}


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    paths, rounds = (6, 11) if asked.quick else (12, 31)
    by_cells = measured(cells, (16,) if asked.quick else (16, 32), paths, rounds)
    by_chain = measured(chain, (16,) if asked.quick else (16, 32), paths, rounds if asked.quick else 15)
    ratio, chain_ratio = (statistics.fmean(row["ratio"] for row in rows) for rows in (by_cells, by_chain))
    walks = walk_seconds(10 * rounds)
    print("walk over parameters", walks)
    print(f"chain ratio={chain_ratio:.3f} goal{CHAIN_GOAL}")
    details = {
        "cells": by_cells,
        "chain": {
            "ratio": round(chain_ratio, 4),
            "goal": str(CHAIN_GOAL),
            "met": CHAIN_GOAL.met(chain_ratio),
            "configurations": by_chain,
        },
        "optimizer_walk_seconds": walks,
    }
    settings = {"channels": CHANNELS, "cells": 2, "batch": BATCH, "paths": paths, "rounds": rounds, "data": "random"}
    report(NAME, ratio, GOAL, options=asked, settings=settings, details=details)


if __name__ == "__main__":
    main()
