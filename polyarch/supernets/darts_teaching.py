"""How DARTS trains the cells it found, in a network of its own: with drop-path and an auxiliary classifier.

Liu, Simonyan and Yang (2019), "DARTS: Differentiable Architecture Search", arXiv:1806.09055, section A.2.
"""

import copy

import torch
from torch import Tensor, nn

from polyarch.nn import call
from polyarch.nn.drop_path import DropPath
from polyarch.nn.path_recording import graphs_of
from polyarch.spaces import Architecture
from polyarch.supernets.darts import DartsSupernet

SIDE = 8
"""Pixels of the maps that the auxiliary classifier reads: those of images of 32 pixels after two reductions."""


def auxiliary_classifier(channels: int, classes: int) -> nn.Sequential:
    """DARTS' own, (B, channels, H, W) -> (B, classes); maps of another size than 8x8 are first pooled to it."""
    return nn.Sequential(
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(SIDE),
        nn.AvgPool2d(5, stride=3, count_include_pad=False),  # 2x2 pixels
        nn.Conv2d(channels, 128, 1, bias=False),
        nn.BatchNorm2d(128),
        nn.ReLU(),
        nn.Conv2d(128, 768, 2, bias=False),
        nn.BatchNorm2d(768),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(768, classes),
    )


class DartsTeaching(nn.Module):
    """A DARTS network as it is trained: operations other than the identity are dropped for some examples, and a second
    classifier reads the output of the second reduction cell.

    Args:
        net: whose weights it uses.
    """

    def __init__(self, net: DartsSupernet) -> None:
        super().__init__()
        self.net = net
        self.drop_path = DropPath(0.0)
        weight = next(net.parameters())
        self.auxiliary = auxiliary_classifier(net.widths[net.reductions[1]], net.classes).to(weight)

    def forward(self, x: Tensor, architecture: Architecture) -> Tensor:
        """Logits of the classifier and of the auxiliary one: (B, in_channels, H, W) -> (2, B, classes)."""
        outputs = self.net.cell_outputs(x, self.net.chosen(architecture), self.drop_path)
        second = outputs[self.net.reductions[1]]
        return torch.stack([call(self.net.head, outputs[-1]), call(self.auxiliary, second)])


def taught_network(net: DartsSupernet, architecture: Architecture) -> tuple[nn.Module, nn.Module]:
    """An architecture as plain module, (B, ...) -> (B, classes), and as it is trained, (B, ...) -> (2, B, classes).

    They share their weights, copies of those of the supernet; the auxiliary classifier is new, and in the second only.
    """
    net.space.validate(architecture)
    teaching = DartsTeaching(net)
    (network,) = graphs_of(net, [lambda x: net(x, architecture)])
    (taught,) = graphs_of(teaching, [lambda x: teaching(x, architecture)])
    network, taught = copy.deepcopy((network, taught))
    return network, taught
