"""What grouping by operation saves: a step of NSA-i on NAS-Bench-201 cells over the same step with masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from measure import Goal, interleaved, medians, options, report
from torch import Generator, nn

from polyarch.data import Batch
from polyarch.distributions import Empirical
from polyarch.methods.stochastic.recipes import nsa, nsa_i
from polyarch.nn import skipping_zeros
from polyarch.randomness import generator_at, global_seed
from polyarch.runs.networks import to_device
from polyarch.spaces import Architecture, per_example_gates
from polyarch.strategies.strategy import minimise
from polyarch.supernets import NB201Supernet

NAME = "per_example_operations"
GOAL = Goal("<=", 0.8)
SEED = 0
CHANNELS, SIZE = 16, 32

Step = Callable[[Generator], object]


def sgd(module: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, nesterov=True, foreach=True)


def make_net(cells: int) -> NB201Supernet:
    with global_seed(SEED, "weights"):
        return to_device(NB201Supernet(channels=CHANNELS, cells=cells), torch.device("cpu")).train()


def one_cell(net: NB201Supernet, cell: Architecture, batch: Batch) -> Step:
    """All examples have the same one."""
    strategy = nsa(net, [cell], sgd(net))
    return lambda generator: strategy.step([batch], generator=generator)


def grouped(net: NB201Supernet, cells: Sequence[Architecture], batch: Batch) -> Step:
    """Every operation on the examples that drew it."""
    strategy = nsa_i(net, cells, sgd(net))
    return lambda generator: strategy.step([batch], generator=generator)


def masked(net: NB201Supernet, cells: Sequence[Architecture], batch: Batch) -> Step:
    """Every operation that some example drew, on all examples."""
    q, optimizer = Empirical(net.space, cells), sgd(net)

    def step(generator: Generator) -> None:
        gates = per_example_gates(q.sample(len(batch.inputs), generator=generator))
        with skipping_zeros():
            loss = F.cross_entropy(net(batch.inputs, gates), batch.targets)
        minimise(loss, optimizer)

    return step


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    repeats, batch_size, draws, rounds = (1, 32, 4, 3) if asked.quick else (2, 64, 12, 9)
    generator = generator_at(SEED, "batch")
    images = torch.randn(batch_size, 3, SIZE, SIZE, generator=generator).contiguous(memory_format=torch.channels_last)
    batch = Batch(images, torch.randint(10, (batch_size,), generator=generator))
    alone, *per_example = (make_net(repeats) for _ in range(3))
    cells = [alone.space.sample(generator_at(SEED, "cell", draw)) for draw in range(draws)]
    fixed = {way.__name__: way(net, cells, batch) for way, net in zip((grouped, masked), per_example, strict=True)}
    rows: list[dict[str, float]] = []
    for draw, cell in enumerate(cells):  # each cell once alone: on average that is the work of NSA-i
        sides = {
            name: lambda step=step, draw=draw: step(generator_at(SEED, "step", draw))
            for name, step in {"one_cell": one_cell(alone, cell, batch), **fixed}.items()
        }
        interleaved(sides, 1)  # warm-up
        rows.append(medians(interleaved(sides, rounds)))
    seconds = {name: sum(row[name] for row in rows) for name in rows[0]}
    ratios = {name: round(seconds["grouped"] / seconds[name], 4) for name in ("one_cell", "masked")}
    print({f"over {name}": ratio for name, ratio in ratios.items()})
    settings = {
        "channels": CHANNELS, "cells": repeats, "size": SIZE, "batch": batch_size, "architectures": draws,
        "rounds": rounds, "data": "random",
    }  # fmt: skip
    details = {"ratios": ratios, "median_seconds_by_draw": rows}
    report(NAME, ratios["masked"], GOAL, options=asked, settings=settings, details=details)


if __name__ == "__main__":
    main()
