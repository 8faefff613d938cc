"""Densely connected networks, such as DenseNet-121.

Huang et al. (2017), "Densely Connected Convolutional Networks", arXiv:1608.06993.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.networks.gateable import GateableNetwork, require_counts, require_positive
from polyarch.networks.layers import Stem, convolution, make_stem


class DenseLayer(nn.Module):
    """Concatenates x and BN-ReLU-1x1-BN-ReLU-3x3 of x: (B, C, H, W) -> (B, C + growth, H, W)."""

    def __init__(self, inputs: int, inner: int, growth: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm2d(inputs), nn.ReLU(), convolution(inputs, inner, 1),
            nn.BatchNorm2d(inner), nn.ReLU(), convolution(inner, growth, 3),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C + growth, H, W)."""
        return torch.cat([x, self.branch(x)], dim=1)


class DenseNet(GateableNetwork):
    """DenseNet-BC: blocks of dense layers, joined by transitions: (B, in_channels, H, W) -> (B, classes).

    ``growth=32, layers=(6, 12, 24, 16), stem="large", classes=1000`` is DenseNet-121.

    Args:
        growth: the number of channels that a layer adds.
        layers: the number of layers in every block.
        bottleneck: a layer's 1x1 convolution has ``bottleneck * growth`` outputs.
        compression: the share of channels that a transition keeps; it also halves the resolution.
        stem: ``small`` for images of about 32x32, ``large`` for images of about 224x224.
        initial: the number of channels of the stem; twice the growth by default.
    """

    def __init__(
        self,
        *,
        growth: int = 8,
        layers: Iterable[int] = (4, 4, 4),
        bottleneck: int = 4,
        compression: float = 0.5,
        stem: Stem = "small",
        initial: int | None = None,
        in_channels: int = 3,
        classes: int = 10,
    ) -> None:
        super().__init__()
        layers = require_counts("layers", layers)
        channels = 2 * growth if initial is None else initial
        require_positive(
            growth=growth, bottleneck=bottleneck, initial=channels, in_channels=in_channels, classes=classes
        )
        if not 0 < compression <= 1:
            raise InvalidInput(f"Expected a compression above 0 and up to 1. Got {compression}.")
        self.stem = make_stem(stem, in_channels, channels)
        self.blocks = nn.Sequential()
        for block, count in enumerate(layers):
            if block:
                outputs = max(1, int(channels * compression))
                self.blocks.append(_transition(channels, outputs))
                channels = outputs
            for _ in range(count):
                self.blocks.append(DenseLayer(channels, bottleneck * growth, growth))
                channels += growth
        self.norm = nn.BatchNorm2d(channels)
        self.activation = nn.ReLU()
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(B, in_channels, H, W) -> (B, classes)."""
        x = self.activation(self.norm(self.blocks(self.stem(x))))
        logits: Tensor = self.classifier(x.mean((2, 3)))
        return logits


def _transition(inputs: int, outputs: int) -> nn.Sequential:
    """Joins two blocks: (B, inputs, H, W) -> (B, outputs, H/2, W/2), rounded down."""
    return nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), convolution(inputs, outputs, 1), nn.AvgPool2d(2))
