"""The price of sharing weights: a single-path step over the same step of the bare, extracted network."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable

import torch
from measure import Goal, interleaved, medians, options, report
from torch import nn

from polyarch.data import Batch
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import OneShot, Strategy, Supervised
from polyarch.supernets import NB201Supernet

NAME = "supernet_step"
GOAL = Goal("<=", 1.03)
SEED = 0
CHANNELS = 16
BATCH = 64

Sides = dict[str, Callable[[], object]]


def sgd(module: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, nesterov=True, foreach=True)


def random_batch(size: int, memory_format: torch.memory_format = torch.channels_last) -> Batch:
    generator = generator_at(SEED, "batch", size)
    images = torch.randn(BATCH, 3, size, size, generator=generator)
    return Batch(images.contiguous(memory_format=memory_format), torch.randint(10, (BATCH,), generator=generator))


def step(strategy: Strategy, batch: Batch, path: int) -> Callable[[], object]:
    """One step as ``fit`` takes it: the generator of the position decides which path is drawn."""
    return lambda: strategy.step([batch], generator=generator_at(SEED, "step", path))


def make_shared(cells: int) -> OneShot:
    with global_seed(SEED, "weights"):
        net = NB201Supernet(channels=CHANNELS, cells=cells)
    return OneShot(net, sgd(net))


def compare(paths: int, rounds: int, sides_of: Callable[[int], Sides]) -> dict[str, list[float]]:
    """Median seconds of each side, path by path."""
    rows = []
    for path in range(paths):
        sides = sides_of(path)
        interleaved(sides, 2)  # warm-up
        rows.append(medians(interleaved(sides, rounds)))
    return {side: [round(row[side], 6) for row in rows] for side in rows[0]}


def against_bare(cells: int, size: int) -> Callable[[int], Sides]:
    shared, batch = make_shared(cells), random_batch(size)

    def sides(path: int) -> Sides:
        (architecture,) = shared.paths.draw(generator_at(SEED, "step", path))
        network = shared.net.extract(architecture)
        return {"supernet": step(shared, batch, path), "bare": step(Supervised(network, sgd(network)), batch, path)}

    return sides


def against_contiguous(cells: int, size: int) -> Callable[[int], Sides]:
    formats = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}
    made = {name: (make_shared(cells), random_batch(size, layout)) for name, layout in formats.items()}
    return lambda path: {name: step(shared, batch, path) for name, (shared, batch) in made.items()}


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    paths, rounds = (6, 11) if asked.quick else (24, 21)
    configurations = [(1, 16)] if asked.quick else list(itertools.product((1, 2), (16, 32)))
    rows, ratios = [], []
    for cells, size in configurations:
        steps = compare(paths, rounds, against_bare(cells, size))
        layouts = compare(max(paths // 4, 1), max(rounds // 3, 1), against_contiguous(cells, size))
        ratios.append(sum(steps["supernet"]) / sum(steps["bare"]))
        row = {
            "cells": cells,
            "size": size,
            "ratio": round(ratios[-1], 4),
            "contiguous_over_channels_last": round(sum(layouts["contiguous"]) / sum(layouts["channels_last"]), 4),
        }
        print(row)
        rows.append({**row, "median_seconds_by_path": steps})
    settings = {"channels": CHANNELS, "batch": BATCH, "paths": paths, "rounds": rounds, "data": "random"}
    report(NAME, statistics.fmean(ratios), GOAL, options=asked, settings=settings, details={"configurations": rows})


if __name__ == "__main__":
    main()
