"""The network of the cells that ENAS found for CIFAR-10, plain or inflated."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from polyarch.networks.gateable import gate_groups, require_positive
from polyarch.networks.layers import ParallelSum, convolution, halving
from polyarch.nn.operations import darts_operation, relu_conv_bn

Kind = Literal["normal", "reduction"]

CELLS: dict[Kind, str] = {
    "normal": "0 2 0 0 | 0 4 0 1 | 0 4 1 1 | 1 0 0 1 | 0 2 1 1",
    "reduction": "1 0 1 0 | 0 3 0 2 | 1 1 3 1 | 1 0 0 4 | 0 3 1 1",
}
"""The released cells. A node is ``index operation index operation``: it adds two operations on earlier values.

Index 0 is the output of the cell before the last one, 1 that of the last one, 2 to 6 are the nodes.
"""

OPERATIONS = ("sep_conv_3x3", "sep_conv_5x5", "avg_pool_3x3", "max_pool_3x3", "skip_connect")
INFLATED = (3, 5)
"""The kernel sizes of every separable convolution of an inflated network."""


class EnasCell(nn.Module):
    """Five nodes; the output is the concatenation of those that no other node uses.

    (B, earlier, H, W), (B, previous, H, W) -> (B, outputs, H, W), or half of that resolution in a reduction cell, where
    operations on the two inputs have stride 2.

    Args:
        earlier: channels of the output of the cell before the last one.
        previous: channels of the output of the last cell.
        width: channels of every node.
        after_reduction: whether the last cell halved the resolution, so that the output before it has to follow.
    """

    def __init__(
        self, kind: Kind, earlier: int, previous: int, width: int, *, after_reduction: bool, inflated: bool
    ) -> None:
        super().__init__()
        self.earlier = halving(earlier, width) if after_reduction else relu_conv_bn(earlier, width, 1)
        self.previous = relu_conv_bn(previous, width, 1)
        codes = [int(code) for code in CELLS[kind].replace("|", "").split()]
        self.sources = codes[::2]
        self.operations = nn.ModuleList(
            _operation(OPERATIONS[code], width, 2 if kind == "reduction" and source < 2 else 1, inflated)
            for source, code in zip(self.sources, codes[1::2], strict=True)
        )
        self.ends = [node for node in range(2, 2 + len(self.sources) // 2) if node not in self.sources]
        self.outputs = width * len(self.ends)

    def forward(self, earlier: Tensor, previous: Tensor) -> Tensor:
        """(B, earlier, H, W), (B, previous, H, W) -> (B, outputs, H, W), or half of that resolution."""
        values: list[Tensor] = [self.earlier(earlier), self.previous(previous)]
        for first in range(0, len(self.sources), 2):
            left, right = (self.operations[place](values[self.sources[place]]) for place in (first, first + 1))
            values.append(left + right)
        return torch.cat([values[node] for node in self.ends], dim=1)


class EnasNetwork(nn.Module):
    """Stages of normal cells, a reduction cell between each two of them: (B, in_channels, H, W) -> (B, classes).

    ``width=36, cells=5`` is ENAS's own size: 3.73 million parameters. ENAS reports 4.6 million. In its released code
    one input of every cell goes through a second 1x1 convolution, which would make 3.89 million here, and training has
    one more classifier on the way, which the code does not count and which is left out here.

    Args:
        width: channels of the nodes of the first stage, doubled by every reduction cell.
        cells: normal cells per stage.
        inflated: whether every separable convolution is one of each kernel size, 3 and 5, added and then normalised.
    """

    def __init__(
        self,
        *,
        width: int = 16,
        cells: int = 1,
        stages: int = 3,
        inflated: bool = False,
        in_channels: int = 3,
        classes: int = 10,
    ) -> None:
        super().__init__()
        require_positive(width=width, cells=cells, stages=stages, in_channels=in_channels, classes=classes)
        earlier = previous = 3 * width
        self.stem = nn.Sequential(convolution(in_channels, previous, 3), nn.BatchNorm2d(previous))
        self.cells = nn.ModuleList()
        after_reduction = False
        for stage in range(stages):
            for position in range(0 if stage else 1, cells + 1):
                kind: Kind = "normal" if position else "reduction"
                channels = width * 2**stage
                cell = EnasCell(kind, earlier, previous, channels, after_reduction=after_reduction, inflated=inflated)
                self.cells.append(cell)
                earlier, previous, after_reduction = previous, cell.outputs, kind == "reduction"
        self.activation = nn.ReLU()
        self.classifier = nn.Linear(previous, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(B, in_channels, H, W) -> (B, classes)."""
        earlier = previous = self.stem(x)
        for cell in self.cells:
            earlier, previous = previous, cell(earlier, previous)
        logits: Tensor = self.classifier(self.activation(previous).mean((2, 3)))
        return logits

    def gate_groups(self) -> dict[str, list[str]]:
        """Every convolution but the stem and the depthwise ones, and every pooling and identity, by name."""
        cells = [cell for cell in self.cells if isinstance(cell, EnasCell)]
        branches = [one for cell in cells for one in cell.operations if next(one.parameters(), None) is None]
        return gate_groups(self, branches=branches)


def _operation(name: str, width: int, stride: int, inflated: bool) -> nn.Module:
    """(B, width, H, W) -> (B, width, H/stride, W/stride)."""
    if name.startswith("sep_conv"):
        kernels = INFLATED if inflated else (int(name[-1]),)
        return nn.Sequential(*_separable(width, kernels, stride), *_separable(width, kernels, 1))
    if name == "skip_connect" and stride == 2:
        return halving(width, width)
    return darts_operation(name, width, stride=stride, affine=True)


def _separable(width: int, kernels: tuple[int, ...], stride: int) -> tuple[nn.Module, ...]:
    """ReLU, of each size a depthwise and a 1x1 convolution, added, batch normalisation."""
    pairs = {
        f"kernel{size}": nn.Sequential(
            nn.Conv2d(width, width, size, stride=stride, padding=size // 2, groups=width, bias=False),
            nn.Conv2d(width, width, 1, bias=False),
        )
        for size in kernels
    }
    return nn.ReLU(), ParallelSum(pairs), nn.BatchNorm2d(width)
