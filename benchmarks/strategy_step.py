"""The price of a step of every one-shot strategy, over the same passes and inner steps of bare, extracted networks."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from measure import Goal, interleaved, medians, options, report
from torch import nn

from polyarch.data import Batch
from polyarch.methods.one_shot import strategies as one_shot
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import InnerSteps, OneShot, Supervised
from polyarch.supernets import NB201Supernet, Supernet

NAME = "strategy_step"
GOAL = Goal("<=", 1.05)
SEED = 0
CHANNELS, CELLS, SIZE, BATCH = 16, 1, 16, 64

Make = Callable[[Supernet, torch.optim.Optimizer], OneShot]
METHODS: dict[str, Make] = {
    "spos": one_shot.spos,
    "fairnas": one_shot.fairnas,
    "multi_path": one_shot.multi_path,
    "reptile": one_shot.reptile,
    "meta_prox": one_shot.meta_prox,
    "multi_path_meta_prox": one_shot.multi_path_meta_prox,
}


def sgd(module: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, foreach=True)


def random_batch(position: int) -> Batch:
    generator = generator_at(SEED, "batch", position)
    images = torch.randn(BATCH, 3, SIZE, SIZE, generator=generator)
    targets = torch.randint(10, (BATCH,), generator=generator)
    return Batch(images.contiguous(memory_format=torch.channels_last), targets)


def make(method: Make) -> OneShot:
    with global_seed(SEED, "weights"):
        net = NB201Supernet(channels=CHANNELS, cells=CELLS)
    return method(net, sgd(net))


def bare(strategy: OneShot, batches: list[Batch], draw: int) -> Callable[[], object]:
    """The passes of the step's paths, each a network of its own: T steps each, or gradients and one step at the end."""
    architectures = strategy.paths.draw(generator_at(SEED, "step", draw))
    networks = [strategy.net.extract(architecture) for architecture in architectures]
    alone = [Supervised(network, sgd(network)) for network in networks]

    def steps() -> None:
        for one in alone:
            for batch in [batch for batch in batches for _ in range(strategy.inner.passes)]:
                one.step([batch], generator=generator_at(SEED, "step", draw))

    def gradients() -> None:
        (batch,) = batches
        for one in alone:
            one.network.train()
            loss = F.cross_entropy(one.network(batch.inputs), batch.targets)
            loss.item()
            one.optimizer.zero_grad(set_to_none=True)
            loss.backward()
        alone[-1].optimizer.step()

    return steps if isinstance(strategy.inner, InnerSteps) else gradients


def compare(name: str, draws: int, rounds: int) -> dict[str, object]:
    """Seconds of a step and of what it is made of, the sums over the draws of the medians over rounds."""
    strategy = make(METHODS[name])
    batches = [random_batch(position) for position in range(strategy.batches_per_step)]
    rows = []
    for draw in range(draws):
        sides: dict[str, Callable[[], object]] = {
            "strategy": lambda draw=draw: strategy.step(batches, generator=generator_at(SEED, "step", draw)),  # type: ignore[misc]
            "bare": bare(strategy, batches, draw),
        }
        interleaved(sides, 1)  # warm-up
        rows.append(medians(interleaved(sides, rounds)))
    seconds = {side: [round(row[side], 6) for row in rows] for side in rows[0]}
    ratio = sum(seconds["strategy"]) / sum(seconds["bare"])
    print({"strategy": name, "ratio": round(ratio, 4)})
    return {"strategy": name, "ratio": ratio, "median_seconds_by_draw": seconds}


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    draws, rounds = (3, 7) if asked.quick else (12, 15)
    rows = [compare(name, draws, rounds) for name in METHODS]
    settings = {
        "channels": CHANNELS, "cells": CELLS, "size": SIZE, "batch": BATCH, "draws": draws, "rounds": rounds,
        "data": "random",
    }  # fmt: skip
    worst = max(float(str(row["ratio"])) for row in rows)
    report(NAME, worst, GOAL, options=asked, settings=settings, details={"strategies": rows})


if __name__ == "__main__":
    main()
