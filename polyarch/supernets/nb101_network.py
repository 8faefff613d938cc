"""Networks of NAS-Bench-101 with the benchmark's own widths, for training cells alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from polyarch.nn import call, record
from polyarch.nn.operations import conv_bn_relu, nb101_operation
from polyarch.spaces import NB101Cell


def nb101_network(
    cell: NB101Cell, *, channels: int = 128, cells: int = 3, in_channels: int = 3, classes: int = 10
) -> nn.Module:
    """The network that NAS-Bench-101 trains for a cell, loose ends left away: (B, in_channels, H, W) -> (B, classes).

    Stem, three stacks of ``cells`` cells with max-pooling between them, pooled linear head; the width doubles with each
    stack. Has no polyarch class inside.
    """
    cell = cell.pruned()
    layers: list[nn.Module] = [conv_bn_relu(in_channels, channels, 3)]
    inputs = channels
    for stack in range(3):
        if stack:
            layers.append(nn.MaxPool2d(2, stride=2, ceil_mode=True))
        for _ in range(cells):
            layers.append(_Cell(cell, inputs, channels * 2**stack))
            inputs = channels * 2**stack
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
    network = nn.ModuleList([*layers, head])

    def path(x: Tensor) -> Tensor:
        for layer in network:
            x = layer(x) if isinstance(layer, _Cell) else call(layer, x)
        return x

    return record(network, path)


def node_channels(cell: NB101Cell, outputs: int) -> list[int]:
    """The channels of every node between input and output, at its place in the list.

    The parents of the output divide its channels among themselves, the first ones take what is left over. Any other
    node has as many as the widest node that it feeds.
    """
    last = len(cell.matrix) - 1
    channels = [0] * (last + 1)
    sources = [node for node in cell.parents(last) if node]
    for position, node in enumerate(sources):
        channels[node] = outputs // len(sources) + (position < outputs % len(sources))
    for node in range(last - 1, 0, -1):
        if node not in sources:
            channels[node] = max(channels[target] for target in range(node + 1, last) if cell.matrix[node][target])
    return channels


class _Cell(nn.Module):
    """The sum of the parents goes into a node, surplus channels cut off; the output is their concatenation.

    The input is projected by 1x1 convolutions wherever it is a parent. At the output it is added.
    """

    def __init__(self, cell: NB101Cell, inputs: int, outputs: int) -> None:
        super().__init__()
        self.cell = cell
        self.channels = node_channels(cell, outputs)
        last = len(cell.matrix) - 1
        self.projections = nn.ModuleDict({
            str(node): conv_bn_relu(inputs, self.channels[node] if node < last else outputs, 1)
            for node in range(1, last + 1)
            if 0 in cell.parents(node)
        })  # fmt: skip
        self.operations = nn.ModuleList(
            nb101_operation(cell.operations[node], self.channels[node]) for node in range(1, last)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) -> (B, outputs, H, W)."""
        values: dict[int, Tensor] = {}
        for node, operation in enumerate(self.operations, start=1):
            terms = [values[source][:, : self.channels[node]] for source in self.cell.parents(node) if source]
            terms += self._projected(x, node)
            values[node] = call(operation, sum(terms[1:], start=terms[0]))
        last = len(self.cell.matrix) - 1
        parts = [values[source] for source in self.cell.parents(last) if source]
        terms = [*([torch.cat(parts, dim=1)] if parts else []), *self._projected(x, last)]
        return sum(terms[1:], start=terms[0])

    def _projected(self, x: Tensor, node: int) -> list[Tensor]:
        return [call(self.projections[str(node)], x)] if str(node) in self.projections else []
