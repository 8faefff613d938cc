"""Supernets with weights that depend on several choices keep the contract."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from polyarch.nn import ChoiceBlock, InterChoice, SplitCopies
from polyarch.spaces import Architecture, Space, parse_nb201
from polyarch.supernets import ChainSupernet, NB201Supernet, Supernet
from polyarch.testing import SupernetContract


def split_all(net: Supernet) -> Supernet:
    for block in net.modules():
        if isinstance(block, ChoiceBlock) and isinstance(block.interchoice, SplitCopies):
            block.interchoice.split(block.operations)
    return net


class CellContract(SupernetContract):
    interchoice: ClassVar[InterChoice]

    def make_supernet(self) -> Supernet:
        return split_all(NB201Supernet(channels=2, cells=1, classes=3, interchoice=self.interchoice).double())

    def make_inputs(self) -> Tensor:
        return torch.randn(5, 3, 4, 4, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return [
            parse_nb201(text, space)
            for text in (
                "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_3x3~1|nor_conv_1x1~2|",
                # nothing feeds node 2
                "|avg_pool_3x3~0|+|none~0|none~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_3x3~2|",
            )
        ]


class ChainContract(SupernetContract):
    interchoice: ClassVar[InterChoice]

    def make_supernet(self) -> Supernet:
        net = ChainSupernet(
            channels=(4, 4, 6, 6),
            kernels=(3, 5),
            expansions=(1,),
            stem_channels=4,
            head_channels=6,
            classes=3,
            interchoice=self.interchoice,
        )
        return split_all(net.double())

    def make_inputs(self) -> Tensor:
        return torch.randn(5, 3, 5, 4, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        skips = {c.name: "skip" if "skip" in c.options else c.options[0] for c in space.choices}
        return [space.architecture(skips), *super().make_architectures(space)[:1]]


class TestCellBias(CellContract):
    interchoice = InterChoice("bias")


class TestCellBiasOfTwoByGraphWithPoolConvolution(CellContract):
    interchoice = InterChoice("bias", previous=2, predecessors="graph")

    def make_supernet(self) -> Supernet:
        net = NB201Supernet(channels=2, cells=1, classes=3, interchoice=self.interchoice, pool_convolution=True)
        return net.double()


class TestCellAttention(CellContract):
    interchoice = InterChoice("attention", previous=2)


class TestCellSplit(CellContract):
    interchoice = InterChoice("split")


class TestChainBias(ChainContract):
    interchoice = InterChoice("bias", previous=2)


class TestChainSharedBias(ChainContract):
    interchoice = InterChoice("shared_bias", previous=3, predecessors="graph")


class TestChainDeepAttention(ChainContract):
    interchoice = InterChoice("deep_attention", previous=2)


class TestChainSplit(ChainContract):
    interchoice = InterChoice("split")
