from __future__ import annotations

import pytest
import torch
from torch import nn

from polyarch.errors import InvalidInput
from polyarch.estimators import Latency, MACs, Parameters
from polyarch.supernets import NB201Supernet

ALL_3X3 = ["nor_conv_3x3"] * 6
CHAIN_1X1 = ["nor_conv_1x1", "none", "nor_conv_1x1", "none", "none", "nor_conv_1x1"]  # 0->1, 1->2, 2->3
DEAD_END = ["nor_conv_3x3", "none", "none", "skip_connect", "none", "none"]  # node 1 feeds nothing
SKIP = ["skip_connect"] * 6
POOL = ["none", "none", "none", "avg_pool_3x3", "none", "none"]


def cell_macs(channels: int, size: int, classes: int, cells: int, per_cell: int) -> int:
    """Stem, three stages, two reductions, linear head; ``per_cell`` is the sum of k^2 of the convolutions that count.

    A convolution costs inputs * outputs * k^2 * output pixels.
    """
    total = 3 * channels * 9 * size**2
    for stage in range(3):
        width, pixels = channels * 2**stage, (size // 2**stage) ** 2
        total += cells * per_cell * width * width * pixels
        if stage:
            before = width // 2
            total += (before * width * 9 + width * width * 9 + before * width) * pixels
    return total + 4 * channels * classes


@pytest.mark.parametrize(
    ("options", "per_cell"), [(ALL_3X3, 6 * 9), (CHAIN_1X1, 3 * 1), (DEAD_END, 0), (SKIP, 0), (POOL, 0)]
)
@pytest.mark.parametrize(("channels", "size", "cells"), [(2, 8, 1), (3, 16, 2)])
def test_macs_equal_the_formula(options: list[str], per_cell: int, channels: int, size: int, cells: int) -> None:
    net = NB201Supernet(channels=channels, cells=cells, classes=7)
    macs = MACs((3, size, size)).score(net, net.space.architecture(options))
    assert macs == cell_macs(channels, size, 7, cells, per_cell)


def cell_parameters(channels: int, classes: int, cells: int, per_cell: int) -> int:
    """Convolutions without bias; scale and shift of the normalisation outside the cells."""
    total = 3 * channels * 9 + 2 * channels
    for stage in range(3):
        width = channels * 2**stage
        total += cells * per_cell * width * width
        if stage:
            before = width // 2
            total += before * width * 9 + width * width * 9 + before * width + 4 * width
    return total + 2 * 4 * channels + 4 * channels * classes + classes


@pytest.mark.parametrize(("options", "per_cell"), [(ALL_3X3, 6 * 9), (CHAIN_1X1, 3 * 1), (DEAD_END, 0), (SKIP, 0)])
def test_parameters_equal_the_formula(options: list[str], per_cell: int) -> None:
    net = NB201Supernet(channels=3, cells=2, classes=7)
    assert Parameters().score(net, net.space.architecture(options)) == cell_parameters(3, 7, 2, per_cell)


class TestLatency:
    def test_a_much_larger_network_takes_longer(self) -> None:
        net = NB201Supernet(channels=16, cells=2)
        latency = Latency((3, 16, 16), batch_size=8, rounds=5)
        small, large = (latency.score(net, net.space.architecture(options)) for options in (SKIP, ALL_3X3))
        assert 0 < 1.5 * small < large  # 36 convolutions more

    def test_batch_and_mode(self) -> None:
        """One warm network, in evaluation mode, sees batches of the asked size: three to warm up, then rounds."""
        shapes: list[tuple[tuple[int, ...], bool, bool]] = []

        class Noting(nn.Flatten):
            def forward(self, input: torch.Tensor) -> torch.Tensor:
                shapes.append((tuple(input.shape), self.training, torch.is_grad_enabled()))
                return super().forward(input)

        net = NB201Supernet(channels=1, cells=1)
        net.head[3] = Noting()
        Latency((3, 8, 8), batch_size=5, rounds=4).score(net, net.space.architecture(SKIP))
        assert shapes == [((5, 4, 1, 1), False, False)] * 7

    @pytest.mark.parametrize("settings", [{"batch_size": 0}, {"rounds": 0}])
    def test_nothing_to_measure(self, settings: dict[str, int]) -> None:
        with pytest.raises(InvalidInput, match="batch size and rounds of 1 or more"):
            Latency((3, 8, 8), **settings)
