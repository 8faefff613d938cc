"""The price of a network of one's own: a single-path step through its blocks over the bare, extracted network's."""

from __future__ import annotations

from measure import Goal, interleaved, medians, options, report
from supernet_step import BATCH, random_batch, sgd, step
from torch import Tensor, nn

from polyarch.nn import Maybe, OneOf, Repeat
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import OneShot, Supervised
from polyarch.supernets import from_module

NAME = "own_module_step"
GOAL = Goal("<=", 1.05)
SEED = 0
CHANNELS = 16
SIZE = 16


def convolution(kernel: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(CHANNELS, CHANNELS, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(CHANNELS), nn.ReLU()
    )


class Network(nn.Module):
    """Three choices of a block, an elastic depth and one that can be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.blocks = nn.Sequential(
            *(OneOf(f"block{i}", conv3=convolution(3), conv5=convolution(5), skip=nn.Identity()) for i in range(3))
        )
        self.body = Repeat("depth", [convolution(3) for _ in range(4)])
        self.norm = Maybe("norm", nn.BatchNorm2d(CHANNELS))
        self.head = nn.Linear(CHANNELS, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.body(self.blocks(self.stem(x)))).mean((2, 3)))
        return logits


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    paths, rounds = (6, 11) if asked.quick else (24, 31)
    batch = random_batch(SIZE)
    with global_seed(SEED, "weights"):
        net = from_module(Network(), batch.inputs)
    shared = OneShot(net, sgd(net))
    rows = []
    for path in range(paths):
        (architecture,) = shared.paths.draw(generator_at(SEED, "step", path))
        network = net.extract(architecture)
        sides = {"supernet": step(shared, batch, path), "bare": step(Supervised(network, sgd(network)), batch, path)}
        interleaved(sides, 2)  # warm-up
        rows.append(medians(interleaved(sides, rounds)))
    times = {side: [round(row[side], 6) for row in rows] for side in rows[0]}
    ratio = sum(times["supernet"]) / sum(times["bare"])
    settings = {"channels": CHANNELS, "batch": BATCH, "size": SIZE, "paths": paths, "rounds": rounds, "data": "random"}
    report(NAME, ratio, GOAL, options=asked, settings=settings, details={"median_seconds_by_path": times})


if __name__ == "__main__":
    main()
