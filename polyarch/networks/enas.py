"""The network of the cells that ENAS found for CIFAR-10, plain or inflated.

Pham et al. (2018), "Efficient Neural Architecture Search via Parameter Sharing", arXiv:1802.03268.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from polyarch.networks.gateable import GateableNetwork, require_positive
from polyarch.networks.layers import ParallelSum, convolution, halving
from polyarch.nn.operations import darts_operation, relu_conv_bn

Kind = Literal["normal", "reduction"]

CELLS: dict[Kind, str] = {
    "normal": "0 2 0 0 | 0 4 0 1 | 0 4 1 1 | 1 0 0 1 | 0 2 1 1",
    "reduction": "1 0 1 0 | 0 3 0 2 | 1 1 3 1 | 1 0 0 4 | 0 3 1 1",
}
"""The released cells. A node ``index operation index operation`` adds two operations on earlier values.

Index 0 is the output of the cell before last, 1 that of the last cell, 2 to 6 are the nodes.
"""

OPERATIONS = ("sep_conv_3x3", "sep_conv_5x5", "avg_pool_3x3", "max_pool_3x3", "skip_connect")
INFLATED = (3, 5)
"""The kernel sizes of all separable convolutions in an inflated network."""


class EnasCell(nn.Module):
    """Five nodes; those that no other node uses are concatenated.

    (B, earlier, H, W), (B, previous, H, W) -> (B, outputs, H, W). A reduction cell halves the resolution: operations on
    its two inputs have stride 2.

    Args:
        earlier: the number of output channels of the cell before last.
        previous: the number of output channels of the last cell.
        width: the number of channels of every node.
        after_reduction: whether the last cell halved the resolution, in which case the earlier input is halved, too.
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
        """(B, earlier, H, W), (B, previous, H, W) -> (B, outputs, H, W), or half that resolution."""
        values: list[Tensor] = [self.earlier(earlier), self.previous(previous)]
        for first in range(0, len(self.sources), 2):
            left, right = (self.operations[place](values[self.sources[place]]) for place in (first, first + 1))
            values.append(left + right)
        return torch.cat([values[node] for node in self.ends], dim=1)


class EnasNetwork(GateableNetwork):
    """Stages of normal cells, joined by reduction cells: (B, in_channels, H, W) -> (B, classes).

    ``width=36, cells=5`` is the size of the paper and has 3.73 million parameters here. The paper reports 4.6 million;
    its code puts a second 1x1 convolution on one input of every cell, which would make 3.89 million here, and trains
    with an auxiliary classifier, which it does not count.

    Args:
        width: the number of channels per node in the first stage; every reduction cell doubles it.
        cells: the number of normal cells per stage.
        inflated: replaces every separable convolution by the normalised sum of one with kernel size 3 and one with 5.
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

    def _branches(self) -> list[nn.Module]:
        """All poolings and identities."""
        cells = [cell for cell in self.cells if isinstance(cell, EnasCell)]
        return [one for cell in cells for one in cell.operations if next(one.parameters(), None) is None]


def _operation(name: str, width: int, stride: int, inflated: bool) -> nn.Module:
    """(B, width, H, W) -> (B, width, H/stride, W/stride)."""
    if name.startswith("sep_conv"):
        kernels = INFLATED if inflated else (int(name[-1]),)
        return nn.Sequential(*_separable(width, kernels, stride), *_separable(width, kernels, 1))
    if name == "skip_connect" and stride == 2:
        return halving(width, width)
    return darts_operation(name, width, stride=stride, affine=True)


def _separable(width: int, kernels: tuple[int, ...], stride: int) -> tuple[nn.Module, ...]:
    """ReLU, a sum over kernel sizes of a depthwise followed by a 1x1 convolution, batch normalisation."""
    pairs = {
        f"kernel{size}": nn.Sequential(
            nn.Conv2d(width, width, size, stride=stride, padding=size // 2, groups=width, bias=False),
            nn.Conv2d(width, width, 1, bias=False),
        )
        for size in kernels
    }
    return nn.ReLU(), ParallelSum(pairs), nn.BatchNorm2d(width)
