"""Removed channels against those that Torch-Pruning removes: as small, with the same outputs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.nn import ChannelGraph, multiply_accumulates
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import gate

IMAGES = torch.randn(2, 3, 8, 8, generator=generator_at(0, "images"))


def convolution(inputs: int, outputs: int, **options: Any) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, **options), nn.BatchNorm2d(outputs), nn.ReLU())


class Convolutions(nn.Module):
    """A stream that is added to and concatenated with, a depthwise convolution, and flattened features."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.one, self.two = convolution(3, 6), convolution(6, 8), convolution(8, 6)
        self.depthwise, self.last = convolution(6, 6, groups=6, bias=False), convolution(12, 5, stride=2)
        self.head = nn.Linear(5 * 16, 4)

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        x = x + self.two(self.one(x))
        return self.head(self.last(torch.cat([x, self.depthwise(x)], 1)).flatten(1))


class Attention(nn.Module):
    """Patches and a transformer block with one head, whose attention is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.first, self.second = nn.Conv2d(3, 8, 2, stride=2), nn.LayerNorm(8), nn.LayerNorm(8)
        self.query, self.key, self.value, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.up, self.down, self.head = nn.Linear(8, 32), nn.Linear(32, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        y = self.first(x)
        shares = (self.query(y) @ self.key(y).transpose(1, 2) / 8**0.5).softmax(-1)
        x = x + self.out(shares @ self.value(y))
        return self.head((x + self.down(F.gelu(self.up(self.second(x))))).mean(1))


@pytest.mark.parametrize(
    ("family", "layer", "channels"),
    [
        (Convolutions, "stem.0", [1, 4]),  # with all that is added to it, and the depthwise copy
        (Convolutions, "one.0", [0, 2, 3, 7]),
        (Convolutions, "last.0", [2]),
        (Attention, "up", list(range(0, 32, 3))),
    ],
)
def test_as_torch_pruning(family: type[nn.Module], layer: str, channels: list[int]) -> None:
    """Their groups of coupled layers are our gates of all layers that read these channels."""
    pruning = pytest.importorskip("torch_pruning")
    with global_seed(0, family.__name__):
        model = family()
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.is_floating_point():
                tensor.add_(torch.rand(tensor.shape, generator=generator_at(0, name)))
    model.eval()
    theirs = copy.deepcopy(model)
    root = theirs.get_submodule(layer)
    prune = pruning.prune_conv_out_channels if isinstance(root, nn.Conv2d) else pruning.prune_linear_out_channels
    pruning.DependencyGraph().build_dependency(theirs, IMAGES).get_pruning_group(root, prune, channels).prune()
    gate(model, IMAGES)
    graph = ChannelGraph(model, IMAGES)
    classes = graph.classes()
    keep = {name: ~torch.isin(read, classes.modules[layer][channels]) for name, read in classes.gates.items()}
    ours = graph.removed(keep)
    with torch.no_grad():
        torch.testing.assert_close(ours(IMAGES), theirs(IMAGES))
    sizes = [sum(parameter.numel() for parameter in network.parameters()) for network in (ours, theirs, model)]
    work = [multiply_accumulates(network, IMAGES) for network in (ours, theirs, model)]
    assert sizes[0] == sizes[1] < sizes[2] and work[0] == work[1] < work[2]
