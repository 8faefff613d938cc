"""The price of a wiring per example: a step of NSA-i over the same step of the residual network of the same size."""

from __future__ import annotations

import torch
from measure import Goal, interleaved, medians, options, report
from torch import nn

from polyarch.data import Batch
from polyarch.methods.stochastic.recipes import nsa, nsa_i, nsa_id
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, erdos_renyi, residual_wiring, wired_space
from polyarch.strategies import Strategy, Supervised
from polyarch.supernets import WiredSupernet

NAME = "per_example_wiring"
GOAL = Goal("<=", 1.08)
SEED = 0
WIRINGS = 500
OWN_WEIGHTS = 5
SIZE = 16


def sgd(module: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, nesterov=True, foreach=True)


def make_net(width: int, wirings: list[Architecture] | None = None) -> WiredSupernet:
    with global_seed(SEED, "weights"):
        net = WiredSupernet(width=width, wirings=wirings)
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def make_sides(width: int) -> dict[str, Strategy]:
    drawn = erdos_renyi(wired_space(), WIRINGS, generator=generator_at(SEED, "wirings"))
    few = drawn[:OWN_WEIGHTS]
    nets = [make_net(width), make_net(width), make_net(width, few)]
    residual = make_net(width).extract(residual_wiring(wired_space()))
    return {
        "residual": Supervised(residual, sgd(residual)),
        "nsa": nsa(nets[0], drawn, sgd(nets[0])),
        "nsa_i": nsa_i(nets[1], drawn, sgd(nets[1])),
        "nsa_id": nsa_id(nets[2], sgd(nets[2])),
    }


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    width, batch_size, rounds = (32, 16, 5) if asked.quick else (64, 32, 21)
    generator = generator_at(SEED, "batch")
    images = torch.randn(batch_size, 3, SIZE, SIZE, generator=generator).contiguous(memory_format=torch.channels_last)
    batch = Batch(images, torch.randint(10, (batch_size,), generator=generator))
    steps = {
        name: lambda strategy=strategy: strategy.step([batch], generator=generator_at(SEED, "step"))
        for name, strategy in make_sides(width).items()
    }
    interleaved(steps, 2)  # warm-up
    median = medians(interleaved(steps, rounds))
    ratios = {name: round(median[name] / median["residual"], 4) for name in median}
    print(ratios)
    settings = {
        "width": width,
        "batch": batch_size,
        "size": SIZE,
        "wirings": WIRINGS,
        "wirings_with_weights": OWN_WEIGHTS,
        "rounds": rounds,
    }
    details = {"ratios": ratios, "median_seconds": median}
    report(NAME, ratios["nsa_i"], GOAL, options=asked, settings=settings, details=details)


if __name__ == "__main__":
    main()
