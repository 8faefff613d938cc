"""How long forward passes take, side by side."""

import statistics
import time
from collections.abc import Mapping

import torch
from torch import Tensor, nn


@torch.no_grad()
def forward_seconds(networks: Mapping[str, nn.Module], inputs: Tensor, *, rounds: int = 15) -> dict[str, float]:
    """The median seconds of a forward pass of every network; passes are interleaved, so that noise hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in networks}
    for network in networks.values():
        network(inputs)  # the first pass takes longer
    for _ in range(rounds):
        for name, network in networks.items():
            started = time.perf_counter()
            network(inputs)
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in seconds.items()}
