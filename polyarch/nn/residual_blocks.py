"""Residual blocks: the down-sampling block of cell networks and the pre-activation bottleneck.

Dong & Yang (2020), "NAS-Bench-201", arXiv:2001.00326; He et al. (2016), "Identity Mappings in Deep Residual Networks",
arXiv:1603.05027.
"""

from __future__ import annotations

from torch import Tensor, nn

from polyarch.nn.operations import relu_conv_bn
from polyarch.nn.path_recording import call


class ReductionBlock(nn.Module):
    """Halves the resolution: (B, C, H, W) -> (B, outputs, H/2, W/2).

    y = conv_b(conv_a(x)) + conv1x1(avg_pool2x2(x)), the residual block between the stages of NAS-Bench-201.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(relu_conv_bn(inputs, outputs, 3, stride=2), relu_conv_bn(outputs, outputs, 3))
        # ceil_mode rounds odd sizes as the strided convolution does
        self.shortcut = nn.Sequential(
            nn.AvgPool2d(2, stride=2, ceil_mode=True), nn.Conv2d(inputs, outputs, 1, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, outputs, H/2, W/2)."""
        return call(self.body, x) + call(self.shortcut, x)


def bottleneck(channels: int, inner: int, kernel: int = 3) -> nn.Sequential:
    """Pre-activation bottleneck without shortcut: BN-ReLU-1x1, BN-ReLU-kxk, BN-ReLU-1x1; keeps the shape."""
    return nn.Sequential(
        nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, inner, 1, bias=False),
        nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, inner, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, channels, 1, bias=False),
    )  # fmt: skip
