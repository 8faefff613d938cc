"""The price of learning what to drop: a step of posterior-guided search over the plain network's step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from measure import Goal, interleaved, medians, options, report
from torch import nn

from polyarch.data import Batch
from polyarch.methods.posterior_guided.search import PosteriorSearch
from polyarch.networks import DenseNet, EnasNetwork, InflatedResNet, MultiBranchResNet
from polyarch.randomness import generator_at, global_seed
from polyarch.runs.networks import to_device
from polyarch.strategies import PosteriorGuided, Supervised
from polyarch.supernets import gate

NAME = "gated_step"
GOAL = Goal("<=", 1.08)
SEED = 0
SIZE, BATCH = 16, 32
SEARCH = PosteriorSearch(length_scale=50**0.5)

Network = MultiBranchResNet | InflatedResNet | DenseNet | EnasNetwork
NETWORKS: dict[str, Callable[[], Network]] = {
    "MI": lambda: MultiBranchResNet(width=64, kernels=(3, 5)),
    "M": lambda: MultiBranchResNet(width=64),
    "R": lambda: InflatedResNet(width=32),
    "D": lambda: DenseNet(growth=16),
    "E": lambda: EnasNetwork(width=32),
}


def make_network(name: str) -> Network:
    with global_seed(SEED, "weights"):
        return to_device(NETWORKS[name](), torch.device("cpu"))


def random_batch() -> Batch:
    generator = generator_at(SEED, "batch")
    images = torch.randn(BATCH, 3, SIZE, SIZE, generator=generator)
    targets = torch.randint(10, (BATCH,), generator=generator)
    return Batch(images.contiguous(memory_format=torch.channels_last), targets)


def make_guided(network: Network, example: torch.Tensor) -> PosteriorGuided:
    return SEARCH.strategy(gate(network, example, groups=network.gate_groups()), num_data=1000 * BATCH)


def make_plain(network: nn.Module) -> Supervised:
    """The same optimiser, with its weight decay on everything: nothing here has a prior."""
    optimizer = torch.optim.SGD(
        network.parameters(), lr=SEARCH.learning_rate, momentum=SEARCH.momentum, weight_decay=SEARCH.weight_decay,
        nesterov=True, foreach=True,
    )  # fmt: skip
    return Supervised(network, optimizer)


def compare(name: str, batch: Batch, rounds: int) -> dict[str, float]:
    """Seconds of a step of each side."""
    strategies = {"guided": make_guided(make_network(name), batch.inputs), "plain": make_plain(make_network(name))}
    steps = {
        side: lambda strategy=strategy: strategy.step([batch], generator=generator_at(SEED, "step"))
        for side, strategy in strategies.items()
    }
    interleaved(steps, 2)  # warm-up
    return medians(interleaved(steps, rounds))


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    rounds = 7 if asked.quick else 41
    batch = random_batch()
    median = {name: compare(name, batch, rounds) for name in NETWORKS}
    ratios = {name: round(median[name]["guided"] / median[name]["plain"], 4) for name in NETWORKS}
    print(ratios)
    settings = {
        "MI": "multi-branch ResNet, width 64, kernels 3 and 5", "M": "multi-branch ResNet, width 64, kernels 3",
        "R": "ResNet, width 32, kernels 3 and 5", "D": "DenseNet, growth 16", "E": "ENAS cells, width 32",
        "size": SIZE, "batch": BATCH, "rounds": rounds,
    }  # fmt: skip
    details = {"ratios": ratios, "median_seconds": median}
    report(NAME, ratios["MI"], GOAL, options=asked, settings=settings, details=details)


if __name__ == "__main__":
    main()
