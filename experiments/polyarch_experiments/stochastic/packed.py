"""Packed-Ensembles: several small networks in one, by grouped convolutions.

Laurent et al. (2023), "Packed-Ensembles for Efficient Uncertainty Estimation", ICLR, arXiv:2210.09184.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from polyarch.data import Batch
from polyarch.errors import InvalidInput
from polyarch.objectives import log_marginal
from polyarch.strategies import Supervised
from polyarch.strategies.strategy import to_training


class PackedMembers(nn.Module):
    """M residual networks side by side, each with alpha / M of the width: (B, C, H, W) -> logits (M, B, classes).

    The network has the stages, modules and down-sampling of the residual wiring. Every convolution but the first is
    grouped, so that no member reads what another computes; the first reads the image for all of them. The convolutions
    of a stage have alpha^2 / M times the weights of the single network.

    Args:
        width: of the single network that is packed.
        members: M.
        alpha: how much wider all members together are; 2 is the paper's for four members.
    """

    def __init__(
        self, *, width: int, modules: int, stages: int, in_channels: int, classes: int, members: int = 4, alpha: int = 2
    ) -> None:
        super().__init__()
        first = alpha * width
        if members < 1 or first % members:
            raise InvalidInput(f"Expected alpha * width that is a multiple of the members. Got {first} and {members}.")
        self.members, self.classes, self.modules_per_stage = members, classes, modules
        widths = [first * 2**stage for stage in range(stages)]
        self.stem = nn.Sequential(nn.Conv2d(in_channels, first, 3, padding=1, bias=False), nn.BatchNorm2d(first))
        self.blocks = nn.ModuleList(
            _relu_conv_bn(channels, channels, 3, members) for channels in widths for _ in range(modules)
        )
        self.downs = nn.ModuleList(
            nn.Sequential(_relu_conv_bn(*pair, 1, members), nn.AvgPool2d(2, ceil_mode=True))
            for pair in pairwise(widths)
        )
        self.head = nn.Sequential(
            nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(widths[-1], members * classes, 1, groups=members)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (M, B, classes)."""
        for stage in range(len(self.downs) + 1):
            x = self.downs[stage - 1](x) if stage else self.stem(x)
            blocks = self.blocks[stage * self.modules_per_stage : (stage + 1) * self.modules_per_stage]
            total, count = x, 1
            for first, second in zip(blocks[::2], blocks[1::2], strict=False):
                total, count = total + second(first(total / count)), count + 1
            if len(blocks) % 2:
                total, count = total + blocks[-1](total / count), count + 1
            x = total / count
        logits: Tensor = self.head(x)
        return logits.view(len(x), self.members, self.classes).transpose(0, 1)


class PackedMixture(nn.Module):
    """log (1/M) sum_m softmax(logits_m) of packed members: (B, C, H, W) -> (B, classes)."""

    def __init__(self, members: PackedMembers) -> None:
        super().__init__()
        self.members = members

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, classes)."""
        log_p = torch.log_softmax(self.members(x), -1)
        return log_marginal(log_p, log_p.new_full((len(log_p),), 1 / len(log_p)).log())


@dataclass(eq=False)
class PackedTraining(Supervised):
    """Minimises the mean loss of packed members, each of which learns every label."""

    network: PackedMixture

    def loss(self, batch: Batch) -> Tensor:
        """(1/M) sum_m loss(logits_m, y)."""
        to_training(self.network)
        logits = self.network.members(batch.inputs)
        return torch.stack([self.task.loss(one, batch.targets) for one in logits]).mean()


def _relu_conv_bn(inputs: int, outputs: int, kernel: int, groups: int) -> nn.Sequential:
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )
