"""Every supernet keeps the contract."""

from __future__ import annotations

import torch
from torch import Tensor

from polyarch.spaces import Architecture, Space, parse_nb201
from polyarch.supernets import (
    ChainSupernet,
    ConvolutionalDepth,
    FullyConnectedDepth,
    MLPSupernet,
    NB201Supernet,
    Supernet,
)
from polyarch.testing import SupernetContract

CELLS = (
    "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_3x3~1|nor_conv_1x1~2|",
    "|nor_conv_3x3~0|+|none~0|none~1|+|none~0|nor_conv_3x3~1|nor_conv_3x3~2|",  # node 2 is fed by nothing
    "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_1x1~1|+|skip_connect~0|none~1|none~2|",  # nodes 1 and 2 go nowhere
    "|none~0|+|none~0|nor_conv_3x3~1|+|avg_pool_3x3~0|nor_conv_3x3~1|nor_conv_1x1~2|",  # node 1, so node 2, is dead
    "|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|none~0|none~1|none~2|",  # nothing reaches the output
    "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
    "|skip_connect~0|+|none~0|skip_connect~1|+|none~0|none~1|skip_connect~2|",
)


class TestNB201Supernet(SupernetContract):
    def make_supernet(self) -> Supernet:
        return NB201Supernet(channels=3, cells=1, classes=4).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(7, 3, 8, 8, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return [parse_nb201(text, space) for text in CELLS]


class TestDeepAffineNB201SupernetOnOddImages(TestNB201Supernet):
    """Two cells per stage, one grey channel, sides that do not halve."""

    def make_supernet(self) -> Supernet:
        return NB201Supernet(channels=2, cells=2, in_channels=1, classes=2, affine=True).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(5, 1, 7, 5, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return super().make_architectures(space)[::3]  # whole, partly dead, and without anything but zeros and skips


class TestNB201SupernetOfFewOperations(SupernetContract):
    """Without ``none``, in single precision and the memory format of training."""

    tolerance = 1e-4

    def make_supernet(self) -> Supernet:
        return NB201Supernet(channels=4, cells=1, operations=("nor_conv_3x3", "skip_connect"))

    def make_inputs(self) -> Tensor:
        return torch.randn(6, 3, 9, 9).contiguous(memory_format=torch.channels_last)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return super().make_architectures(space)[:2]


class TestChainSupernet(SupernetContract):
    def make_supernet(self) -> Supernet:
        return ChainSupernet(
            channels=(4, 4, 6, 6),
            strides=(1, 2, 1, 1),
            kernels=(3, 5),
            expansions=(1, 2),
            stem_channels=4,
            head_channels=8,
            classes=3,
        ).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(5, 3, 9, 7, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        skips = {c.name: "skip" if "skip" in c.options else c.options[0] for c in space.choices}
        return [space.architecture(skips), *super().make_architectures(space)[:2]]


class TestFullyConnectedDepth(SupernetContract):
    def make_supernet(self) -> Supernet:
        return FullyConnectedDepth(features=6, classes=3, max_depth=4, width=5).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(8, 2, 3, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return list(space.enumerate())


class TestConvolutionalDepth(TestFullyConnectedDepth):
    def make_supernet(self) -> Supernet:
        return ConvolutionalDepth(max_depth=3, channels=6, inner_channels=3, classes=3).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(8, 1, 9, 10, dtype=torch.float64)


class TestMLPSupernet(SupernetContract):
    def make_supernet(self) -> Supernet:
        return MLPSupernet(features=6, classes=3, width=5, max_depth=3, inner_widths=(2, 4)).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(8, 2, 3, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        by_depth = {member["depth"]: member for member in space.enumerate()}
        return [space.architecture([choice.options[0] for choice in space.choices]), *by_depth.values()]
