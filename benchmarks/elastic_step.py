"""The price of sharing slices: a single-path step of the elastic ResNet over that of the bare, extracted network."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from measure import Goal, options, report
from supernet_step import BATCH, SEED, Sides, compare, random_batch, sgd, step

from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import OneShot, Supervised
from polyarch.supernets import ResNetSupernet

NAME = "elastic_step"
GOAL = Goal("<=", 1.05)


def against_bare(size: int) -> Callable[[int], Sides]:
    with global_seed(SEED, "weights"):
        net = ResNetSupernet()
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    shared, batch = OneShot(net, sgd(net)), random_batch(size)

    def sides(path: int) -> Sides:
        (architecture,) = shared.paths.draw(generator_at(SEED, "step", path))
        network = net.extract(architecture)
        return {"elastic": step(shared, batch, path), "bare": step(Supervised(network, sgd(network)), batch, path)}

    return sides


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    paths, rounds = (6, 5) if asked.quick else (24, 9)
    rows, ratios = [], []
    for size in (16,) if asked.quick else (16, 32):
        steps = compare(paths, rounds, against_bare(size))
        ratios.append(sum(steps["elastic"]) / sum(steps["bare"]))
        row = {"size": size, "ratio": round(ratios[-1], 4)}
        print(row)
        rows.append({**row, "median_seconds_by_path": steps})
    settings = {"batch": BATCH, "paths": paths, "rounds": rounds, "data": "random"}
    report(NAME, statistics.fmean(ratios), GOAL, options=asked, settings=settings, details={"configurations": rows})


if __name__ == "__main__":
    main()
