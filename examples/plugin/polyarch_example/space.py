"""A space: a chain of convolutions that choose their kernel size, written as a plain torch module."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt
from torch import nn

from polyarch import OneOf
from polyarch.runs.space_settings import SpaceSettings
from polyarch.supernets import Supernet, from_module, probe


class KernelSettings(SpaceSettings):
    """Convolutions in a chain; each chooses its kernel size, or is left out."""

    kind: Literal["kernels", "polyarch_example.space:KernelSettings"] = "kernels"
    channels: PositiveInt = 8
    layers: PositiveInt = 3

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """A supernet for images of this shape."""
        chain = [
            OneOf(f"layer{index}", skip=nn.Identity(), conv1=self._conv(1), conv3=self._conv(3), conv5=self._conv(5))
            for index in range(self.layers)
        ]
        stem = nn.Conv2d(input_shape[0], self.channels, 3, padding=1)
        head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(self.channels, classes))
        return from_module(nn.Sequential(stem, *chain, *head), probe(input_shape))

    def _conv(self, size: int) -> nn.Module:
        channels = self.channels
        convolution = nn.Conv2d(channels, channels, size, padding=size // 2)
        return nn.Sequential(convolution, nn.BatchNorm2d(channels), nn.ReLU())
