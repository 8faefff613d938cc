"""The price of sharing slices: a single-path step of the elastic ResNet over that of the bare, extracted network."""

from __future__ import annotations

import time

import torch
from measure import Goal, interleaved, medians, options, report
from supernet_step import BATCH, SEED, random_batch, sgd, step

from polyarch.randomness import generator_at, global_seed
from polyarch.runs.elastic_spaces import ResNetSettings
from polyarch.runs.networks import to_device
from polyarch.strategies import OneShot, Supervised

NAME = "elastic_step"
GOAL = Goal("<=", 1.05)
SIZES = (32, 16, 8)
"""The first counts; the fixed costs of slices weigh more where a step takes a few milliseconds."""


def compare(size: int, paths: int, rounds: int) -> dict[str, list[float]]:
    """Median processor seconds of each side, path by path, in the space that suits images of this size."""
    batch = random_batch(size)
    with global_seed(SEED, "weights"):
        net = to_device(ResNetSettings().build((3, size, size), 10), torch.device("cpu"))
    shared = OneShot(net, sgd(net))
    rows = []
    for path in range(paths):
        (architecture,) = shared.paths.draw(generator_at(SEED, "step", path))
        network = net.extract(architecture)
        sides = {"elastic": step(shared, batch, path), "bare": step(Supervised(network, sgd(network)), batch, path)}
        interleaved(sides, 2)  # warm-up
        rows.append(medians(interleaved(sides, rounds, time.process_time)))
    return {side: [round(row[side], 6) for row in rows] for side in rows[0]}


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    paths, rounds = (4, 3) if asked.quick else (24, 9)
    rows = []
    for size in SIZES[:1] if asked.quick else SIZES:
        times = compare(size, paths, rounds)
        row = {"size": size, "ratio": round(sum(times["elastic"]) / sum(times["bare"]), 4)}
        print(row)
        rows.append({**row, "median_seconds_by_path": times})
    settings = {"batch": BATCH, "paths": paths, "rounds": rounds, "data": "random"}
    ratio = float(rows[0]["ratio"])  # type: ignore[arg-type]
    report(NAME, ratio, GOAL, options=asked, settings=settings, details={"configurations": rows})


if __name__ == "__main__":
    main()
