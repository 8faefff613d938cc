"""How far the batch means that normalisation layers subtract move from batch to batch.

For features h_i of a batch B, var(mean_i h_i) = (sum_i var(h_i) + sum_{i != j} cov(h_i, h_j)) / |B|^2. Examples that
share an architecture are shifted together, so that the covariances stay, however large the batch: the mean of a
training batch is then far from the running average that takes its place later.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.norm_policies import BatchStatistics, norm_layers

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class MeanVariance:
    """What happens at one normalisation layer, averaged over its channels.

    Args:
        variance: of the batch means, over batches.
        relative: that over the mean variance within a batch, which is what the layer divides by: comparable between
            layers and networks. ``None`` where no batch varies.
    """

    variance: float
    relative: float | None


def batch_mean_variances(
    network: Network, run: Callable[[Network, Tensor], object], inputs: Iterable[Tensor]
) -> dict[str, MeanVariance]:
    """The variance over batches of the batch mean of every normalisation layer's input, by the layer's name.

    All layers use batch statistics, as in training, everything else is in evaluation mode. The network itself stays as
    it is: a copy runs. Layers that ran fewer than two times are left out.

    Args:
        run: one pass of the given copy over a batch, e.g. under a random architecture for all examples or for each.
        inputs: batches, (B, ...).
    """
    judged = copy.deepcopy(network)
    BatchStatistics().prepare(judged, ())
    names = {layer: name for name, layer in judged.named_modules()}
    means: dict[str, list[Tensor]] = {names[layer]: [] for layer in norm_layers(judged)}
    spreads: dict[str, list[Tensor]] = {name: [] for name in means}
    if not means:
        raise InvalidInput("Expected a network with batch normalisation. Got one without.")

    def note(layer: nn.Module, args: tuple[Any, ...]) -> None:
        channels = args[0].detach().double().transpose(0, 1).flatten(1)  # (C, B * places)
        means[names[layer]].append(channels.mean(1))
        spreads[names[layer]].append(channels.var(1, correction=0))

    for layer in norm_layers(judged):
        layer.register_forward_pre_hook(note)
    with torch.no_grad():
        for x in inputs:
            run(judged, x)
    return {name: _summary(means[name], spreads[name]) for name in means if len(means[name]) > 1}


def _summary(means: list[Tensor], spreads: list[Tensor]) -> MeanVariance:
    variance = float(torch.stack(means).var(0, correction=1).mean())
    spread = float(torch.stack(spreads).mean())
    return MeanVariance(variance, variance / spread if spread > 0 else None)
