"""The price of learning the depth: a step with all heads and q over the same network's step with one head."""

from __future__ import annotations

import torch
from measure import Goal, interleaved, medians, options, report
from supernet_step import step

from polyarch.data import Batch
from polyarch.methods.depth.search import DepthSearch, DepthTraining
from polyarch.randomness import generator_at, global_seed
from polyarch.runs.networks import to_device
from polyarch.strategies import Supervised
from polyarch.supernets import ConvolutionalDepth, DepthSupernet, FullyConnectedDepth

NAME = "depth_step"
SEED = 0
GOALS = {"fully connected": Goal("<=", 1.15), "convolutional": Goal("<=", 1.1)}


def fully_connected() -> tuple[DepthSupernet, Batch]:
    generator = generator_at(SEED, "points")
    points = torch.randn(200, 2, generator=generator)
    return FullyConnectedDepth(features=2, classes=2, max_depth=50, width=20), Batch(points, torch.arange(200) % 2)


def convolutional() -> tuple[DepthSupernet, Batch]:
    images = torch.randn(64, 1, 28, 28, generator=generator_at(SEED, "images"))
    net = to_device(ConvolutionalDepth(max_depth=20), torch.device("cpu"))
    return net, Batch(images.contiguous(memory_format=torch.channels_last), torch.arange(64) % 10)


def compare(net: DepthSupernet, batch: Batch, rounds: int) -> dict[str, list[float]]:
    learned = DepthSearch(learning_rate=0.01).strategy(net, num_data=len(batch.targets))
    network = net.extract(net.space.members[-1])
    bare = Supervised(network, DepthTraining(learning_rate=0.01).optimizer(network))
    sides = {"learned": step(learned, batch, 0), "bare": step(bare, batch, 0)}
    interleaved(sides, 3)  # warm-up
    return interleaved(sides, rounds)


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    makers = {"fully connected": (fully_connected, 151), "convolutional": (convolutional, 15)}
    rows, ratios = [], {}
    for name, (make, rounds) in makers.items():
        with global_seed(SEED, "weights"):
            net, batch = make()
        times = compare(net, batch, max(rounds // 5, 3) if asked.quick else rounds)
        median = medians(times)
        ratios[name] = median["learned"] / median["bare"]
        row = {"network": name, "ratio": round(ratios[name], 4), "goal": str(GOALS[name])}
        print(row)
        rows.append(
            {**row, "met": GOALS[name].met(ratios[name]), "rounds": len(times["bare"]), "median_seconds": median}
        )
    settings = {
        "fully connected": "D=50, width 20, batch 200", "convolutional": "D=20, 64/32 channels, 28x28, batch 64"
    }  # fmt: skip
    # The line shows the harder of the two goals: a plain implementation misses the fully connected one.
    name = "fully connected"
    report(NAME, ratios[name], GOALS[name], options=asked, settings=settings, details={"networks": rows})


if __name__ == "__main__":
    main()
