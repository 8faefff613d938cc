"""Heads of all depths: a Python loop over the heads over one batched call, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import torch
from measure import Goal, interleaved, medians, options, report, summary
from torch import Tensor

from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import ConvolutionalDepth

NAME = "batched_heads"
GOAL = Goal(">=", 1)
SEED = 0
DEPTH = 50
BATCH = 64


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    rounds = 21 if asked.quick else 101
    with global_seed(SEED, "weights"):
        net = ConvolutionalDepth(max_depth=DEPTH).train()
    generator = generator_at(SEED, "features")
    features = [
        torch.randn(BATCH, 64, 12, 12, generator=generator).contiguous(memory_format=torch.channels_last)
        for _ in range(DEPTH + 1)
    ]
    for feature in features:
        feature.requires_grad_()
    depths = list(range(DEPTH + 1))

    def side(heads: Callable[[], Tensor]) -> Callable[[], object]:
        def run() -> None:
            for value in (*features, *net.parameters()):
                value.grad = None
            heads().square().sum().backward()

        return run

    sides = {
        "loop": side(lambda: torch.stack([net.exit(feature, d) for feature, d in zip(features, depths, strict=True)])),
        "batched": side(lambda: net.exits(features, depths)),
    }
    interleaved(sides, 3)  # warm-up
    times = interleaved(sides, rounds)
    median = medians(times)
    settings = {"depth": DEPTH, "batch": BATCH, "channels": 64, "features": "12x12", "rounds": rounds}
    report(NAME, median["loop"] / median["batched"], GOAL, options=asked, settings=settings, details=summary(times))


if __name__ == "__main__":
    main()
