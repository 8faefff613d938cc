"""The price of learning q by the sum of training losses: a step of it over its plain training steps, q left alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from measure import Goal, interleaved, medians, options, report

from polyarch.data import Batch
from polyarch.methods.differentiable.recipes import bilevel, hypergradient, mixed_supernet
from polyarch.randomness import generator_at, global_seed
from polyarch.runs.networks import to_device
from polyarch.strategies import Bilevel, take_step
from polyarch.supernets import DartsSupernet, NB201Supernet, Supernet

NAME = "sotl_step"
GOAL = Goal("<=", 1.03)
SEED = 0
BATCH = 64
STEPS = 10

NETS: dict[str, Callable[[], Supernet]] = {
    "nb201": lambda: NB201Supernet(channels=16, cells=1),
    "darts": lambda: DartsSupernet(layers=4, channels=8),
}


def make(net: Callable[[], Supernet]) -> Bilevel:
    with global_seed(SEED, "weights"):
        made = to_device(net(), torch.device("cpu"))
    optimizer = torch.optim.SGD(made.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, foreach=True)
    return bilevel(mixed_supernet(made, "softmax"), optimizer, hypergradient("sotl", steps=STEPS, repeat=False))


def random_batch(position: int, size: int) -> Batch:
    generator = generator_at(SEED, "batch", position)
    images = torch.randn(BATCH, 3, size, size, generator=generator).contiguous(memory_format=torch.channels_last)
    return Batch(images, torch.randint(10, (BATCH,), generator=generator))


def sides_of(name: str, size: int) -> dict[str, Callable[[], object]]:
    """T steps of the weights and one of q, and T steps of the weights alone; the same network takes both."""
    strategy = make(NETS[name])
    batches = [random_batch(position, size) for position in range(STEPS)]
    generator = generator_at(SEED, "unused")

    def plain() -> None:
        strategy.mixed.relaxation.train()
        for batch in batches:
            take_step(strategy.mixed, strategy.optimizer, batch, generator)

    return {"sotl": lambda: strategy.step(batches, generator=generator), "plain": plain}


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    rounds = 5 if asked.quick else 11
    configurations = [("nb201", 16)] if asked.quick else [("nb201", 16), ("nb201", 32), ("darts", 16)]
    rows = []
    for name, size in configurations:
        sides = sides_of(name, size)
        interleaved(sides, 1)  # warm-up
        seconds = medians(interleaved(sides, rounds))
        rows.append({
            "space": name,
            "size": size,
            "ratio": round(seconds["sotl"] / seconds["plain"], 4),
            "median_seconds": {side: round(value, 6) for side, value in seconds.items()},
        })  # fmt: skip
        print(rows[-1])
    ratio = statistics.fmean(float(str(row["ratio"])) for row in rows)
    settings = {"steps": STEPS, "batch": BATCH, "rounds": rounds, "data": "random"}
    report(NAME, ratio, GOAL, options=asked, settings=settings, details={"configurations": rows})


if __name__ == "__main__":
    main()
