"""Operations a choice can offer, built only from ``torch.nn`` classes so that extraction leaves no other."""

from __future__ import annotations

from torch import nn


def relu_conv_bn(inputs: int, outputs: int, kernel: int, *, stride: int = 1, affine: bool = True) -> nn.Sequential:
    """ReLU, convolution without bias, batch normalisation: (B, inputs, H, W) -> (B, outputs, H/stride, W/stride)."""
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs, affine=affine),
    )


def nb201_operation(name: str, channels: int, *, affine: bool) -> nn.Module | None:
    """An operation of the NAS-Bench-201 cell on (B, channels, H, W); ``None`` stands for ``none``."""
    match name:
        case "none":
            return None
        case "skip_connect":
            return nn.Identity()
        case "nor_conv_1x1":
            return relu_conv_bn(channels, channels, 1, affine=affine)
        case "nor_conv_3x3":
            return relu_conv_bn(channels, channels, 3, affine=affine)
        case "avg_pool_3x3":
            return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
    raise AssertionError(name)  # the space has validated the names


def conv_bn(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1, activation: bool = True
) -> list[nn.Module]:
    """Convolution without bias, batch normalisation and, unless switched off, ReLU6."""
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return [*layers, nn.ReLU6()] if activation else layers


def inverted_residual(inputs: int, outputs: int, *, kernel: int, expansion: int, stride: int = 1) -> nn.Sequential:
    """MobileNetV2's block without its shortcut: expand 1x1, depthwise k x k, project 1x1."""
    hidden = inputs * expansion
    return nn.Sequential(
        *conv_bn(inputs, hidden, 1),
        *conv_bn(hidden, hidden, kernel, stride=stride, groups=hidden),
        *conv_bn(hidden, outputs, 1, activation=False),
    )
