"""Layers that several networks use: stems, parallel convolutions and layers that halve the resolution."""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from polyarch.errors import UnknownName
from polyarch.nn.operations import FactorizedReduce, pointwise

Stem = Literal["small", "large"]
"""The first layers of a network: ``small`` for images of about 32x32, ``large`` for images of about 224x224."""


DILATED = 5
"""The size from which on convolutions that share their outputs are dilated."""


class ParallelSum(nn.ModuleDict):
    """The sum of parallel modules: (B, ...) -> (B, ...)."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (B, ...)."""
        terms: list[Tensor] = [module(x) for module in self.values()]
        return sum(terms[1:], start=terms[0])


class ParallelConcatenation(nn.ModuleDict):
    """The channels of parallel modules, one after the other: (B, inputs, H, W) -> (B, outputs, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) -> (B, outputs, H, W)."""
        return torch.cat([module(x) for module in self.values()], dim=1)


def halving(inputs: int, outputs: int) -> FactorizedReduce:
    """Halves the resolution without skipping pixels: (B, inputs, H, W) -> (B, outputs, H/2, W/2), rounded up."""
    return FactorizedReduce(inputs, outputs, affine=True, pick_first=True)


def convolution(inputs: int, outputs: int, kernel: int, *, stride: int = 1) -> nn.Module:
    """Convolution without bias: (B, inputs, H, W) -> (B, outputs, H/stride, W/stride), rounded up.

    1x1 convolutions never get a stride, because channel removal may leave them few inputs: see `pointwise`.
    """
    if kernel == 1:
        return pointwise(inputs, outputs, stride=stride, pick_first=True)
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)


def convolutions(inputs: int, outputs: int, kernels: Iterable[int], *, stride: int = 1) -> ParallelSum:
    """The sum of convolutions of several sizes: (B, inputs, H, W) -> (B, outputs, H/stride, W/stride), rounded up."""
    return ParallelSum({f"kernel{size}": convolution(inputs, outputs, size, stride=stride) for size in kernels})


def concatenated_convolutions(
    inputs: int, outputs: int, kernels: Sequence[int], *, stride: int = 1
) -> ParallelConcatenation:
    """Convolutions of several sizes that share the outputs: (B, inputs, H, W) -> (B, outputs, H/stride, W/stride).

    Sizes from 5 on are dilated: they read every second row and column of their field, with (size + 1) / 2 weights to a
    side.
    """
    shares = [outputs // len(kernels) + (place < outputs % len(kernels)) for place in range(len(kernels))]
    found: dict[str, nn.Module] = {}
    for size, share in zip(kernels, shares, strict=True):
        layer = convolution(inputs, share, size, stride=stride)
        if size >= DILATED:
            taps, padding = (size + 1) // 2, size // 2
            layer = nn.Conv2d(inputs, share, taps, stride=stride, padding=padding, dilation=2, bias=False)
        found[f"kernel{size}"] = layer
    return ParallelConcatenation(found)


def make_stem(kind: Stem, inputs: int, outputs: int) -> nn.Sequential:
    """Convolution, batch normalisation, ReLU: (B, inputs, H, W) -> (B, outputs, H, W), or a quarter of the resolution.

    ``small`` has a 3x3 convolution, ``large`` a 7x7 convolution with stride 2 and a final max pooling.
    """
    if kind not in ("small", "large"):
        raise UnknownName("stem", kind, ["small", "large"])
    if kind == "small":
        return nn.Sequential(convolution(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU())
    layers = (convolution(inputs, outputs, 7, stride=2), nn.BatchNorm2d(outputs), nn.ReLU())
    return nn.Sequential(*layers, nn.MaxPool2d(3, stride=2, padding=1))
