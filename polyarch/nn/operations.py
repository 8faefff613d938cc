"""Operations a choice can offer, built only from ``torch.nn`` classes so that extraction leaves no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard, cast

import torch
from torch import Tensor, nn

from polyarch.nn.path_recording import Composed, call

NARROW = 16
"""Inputs from which on 1x1 convolutions may have a stride."""


def relu_conv_bn(inputs: int, outputs: int, kernel: int, *, stride: int = 1, affine: bool = True) -> nn.Sequential:
    """ReLU, convolution without bias, batch normalisation: (B, inputs, H, W) -> (B, outputs, H/stride, W/stride)."""
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs, affine=affine),
    )


def nb201_operation(name: str, channels: int, *, affine: bool, pool_convolution: bool = False) -> nn.Module | None:
    """An operation of the NAS-Bench-201 cell on (B, channels, H, W); ``None`` stands for ``none``.

    Args:
        pool_convolution: puts a ReLU, a 1x1 convolution and a normalisation before the pooling.
    """
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
            pool = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
            if not pool_convolution:
                return pool
            return nn.Sequential(*relu_conv_bn(channels, channels, 1, affine=affine), pool)
    raise AssertionError(name)  # the space has validated the names


def ends_in_norm(operation: nn.Module | None) -> TypeGuard[nn.Sequential]:
    """Whether the last layer of an operation is a batch normalisation."""
    return isinstance(operation, nn.Sequential) and isinstance(operation[-1], nn.BatchNorm2d)


def raised(operation: nn.Module, x: Tensor, shift: Tensor) -> Tensor:
    """operation(x) + shift, (C, 1, 1), which the normalisation layer at the end adds: forward and backward for free."""
    assert ends_in_norm(operation)
    bias = operation[-1]._parameters["bias"]
    return _ending(operation, x, {"bias": shift.flatten() if bias is None else bias + shift.flatten()})


def weighted(operation: nn.Module, x: Tensor, gate: Tensor) -> Tensor:
    """gate * operation(x), with a gate () or one that fits the output.

    One gate for all examples is a factor of the normalisation layer at the end, if there is one: forward and backward
    for free, and its gradient, too.
    """
    if gate.dim():
        return gate * cast(Tensor, operation(x))
    if not ends_in_norm(operation):
        return cast(Tensor, _Scaled.apply(operation(x), gate))  # type: ignore[no-untyped-call]
    norm = cast(nn.BatchNorm2d, operation[-1])
    scale, bias = norm._parameters["weight"], norm._parameters["bias"]
    # Written out: torch's kernels read a scale with a stride of 0 beyond its end.
    affine = {"weight": gate.repeat(norm.num_features) if scale is None else gate * scale}
    return _ending(operation, x, affine if bias is None else {**affine, "bias": gate * bias})


class _Scaled(torch.autograd.Function):
    """gate * x for a gate (), whose gradient <dy, x> is one pass over both: torch's own multiplies, then sums."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, gate: Tensor) -> Tensor:
        return gate * x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor | None]:
        (slope,), (x, gate) = gradients, ctx.saved_tensors
        of_x, of_gate = ctx.needs_input_grad
        return gate * slope if of_x else None, inner(slope, x).to(gate) if of_gate else None


def inner(first: Tensor, second: Tensor) -> Tensor:
    """The sum of products, in the order in which images lie in memory: (B, C, H, W), (B, C, H, W) -> ()."""
    if first.dim() == 4 and first.is_contiguous(memory_format=torch.channels_last):
        first, second = first.permute(0, 2, 3, 1), second.permute(0, 2, 3, 1)
    return torch.dot(first.reshape(-1), second.reshape(-1))


def _ending(operation: nn.Sequential, x: Tensor, affine: Mapping[str, Tensor]) -> Tensor:
    """operation(x) with another scale or shift of the normalisation layer at its end."""
    *layers, norm = operation
    for layer in layers:
        x = layer(x)
    before = {name: norm._parameters[name] for name in affine}
    norm._parameters.update(cast(dict[str, nn.Parameter | None], affine))
    try:  # called as a module, for its statistics and hooks; `torch.func.functional_call` would cost what is gained
        return cast(Tensor, norm(x))
    finally:
        norm._parameters.update(before)


def pointwise(inputs: int, outputs: int, *, stride: int = 1, pick_first: bool = False) -> nn.Module:
    """1x1 convolution without bias: (B, inputs, H, W) -> (B, outputs, H/stride, W/stride), rounded up.

    With few inputs the pixels are picked first. It is the same, but oneDNN writes beyond its memory in the weight
    gradient of a strided 1x1 convolution of fewer than 16 channels-last inputs (8 without AVX-512; its issue 6035).

    Args:
        pick_first: picks the pixels first with any number of inputs, for a layer that may lose inputs later.
    """
    if stride == 1 or (inputs >= NARROW and not pick_first):
        return nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
    return nn.Sequential(nn.AvgPool2d(1, stride=stride), nn.Conv2d(inputs, outputs, 1, bias=False))


def conv_bn(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1, activation: bool = True
) -> list[nn.Module]:
    """Convolution without bias, batch normalisation and, unless switched off, ReLU6."""
    convolution = (
        pointwise(inputs, outputs, stride=stride)
        if kernel == groups == 1
        else nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
    )
    layers: list[nn.Module] = [convolution, nn.BatchNorm2d(outputs)]
    return [*layers, nn.ReLU6()] if activation else layers


def inverted_residual(inputs: int, outputs: int, *, kernel: int, expansion: int, stride: int = 1) -> nn.Sequential:
    """MobileNetV2's block without its shortcut: expand 1x1, depthwise k x k, project 1x1."""
    hidden = inputs * expansion
    return nn.Sequential(
        *conv_bn(inputs, hidden, 1),
        *conv_bn(hidden, hidden, kernel, stride=stride, groups=hidden),
        *conv_bn(hidden, outputs, 1, activation=False),
    )


class FactorizedReduce(Composed):
    """Halves the resolution without leaving pixels out: (B, inputs, H, W) -> (B, outputs, H/2, W/2).

    Half of the outputs see the pixels at even places, the others those one further down and to the right. Odd sizes are
    rounded up.

    Args:
        affine: whether the normalisation has a scale and a shift.
        pick_first: see `pointwise`.
    """

    def __init__(self, inputs: int, outputs: int, *, affine: bool, pick_first: bool = False) -> None:
        super().__init__()
        self.activation = nn.ReLU()
        self.even = pointwise(inputs, outputs // 2, stride=2, pick_first=pick_first)
        self.shift = nn.ConstantPad2d((-1, 1, -1, 1), 0.0)  # by one to the left and up
        self.odd = pointwise(inputs, outputs - outputs // 2, stride=2, pick_first=pick_first)
        self.norm = nn.BatchNorm2d(outputs, affine=affine)

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) -> (B, outputs, H/2, W/2)."""
        x = call(self.activation, x)
        return call(self.norm, torch.cat([call(self.even, x), call(self.odd, call(self.shift, x))], dim=1))


def darts_operation(name: str, channels: int, *, stride: int, affine: bool) -> nn.Module:
    """An operation of the DARTS cells: (B, channels, H, W) -> (B, channels, H/stride, W/stride).

    Without scale and shift the poolings are normalised, as in the network in which DARTS searches.
    """
    kind, size = name.rsplit("_", 1)
    match kind:
        case "skip":
            return nn.Identity() if stride == 1 else FactorizedReduce(channels, channels, affine=affine)
        case "sep_conv":
            first = _separable(channels, int(size[0]), stride=stride, affine=affine)
            return nn.Sequential(*first, *_separable(channels, int(size[0]), affine=affine))
        case "dil_conv":
            return nn.Sequential(*_separable(channels, int(size[0]), stride=stride, dilation=2, affine=affine))
    pooling = nn.MaxPool2d(3, stride, 1) if kind == "max_pool" else nn.AvgPool2d(3, stride, 1, count_include_pad=False)
    return pooling if affine else nn.Sequential(pooling, nn.BatchNorm2d(channels, affine=False))


def _separable(
    channels: int, kernel: int, *, stride: int = 1, dilation: int = 1, affine: bool
) -> tuple[nn.Module, ...]:
    """ReLU, depthwise convolution, 1x1 convolution, batch normalisation."""
    padding = dilation * (kernel // 2)
    return (
        nn.ReLU(),
        nn.Conv2d(channels, channels, kernel, stride, padding, dilation, groups=channels, bias=False),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.BatchNorm2d(channels, affine=affine),
    )


def nb101_operation(name: str, channels: int) -> nn.Module:
    """An operation of the NAS-Bench-101 cells on (B, channels, H, W)."""
    match name:
        case "conv1x1-bn-relu":
            return conv_bn_relu(channels, channels, 1)
        case "conv3x3-bn-relu":
            return conv_bn_relu(channels, channels, 3)
        case "maxpool3x3":
            return nn.MaxPool2d(3, stride=1, padding=1)
    raise AssertionError(name)  # the space has validated the names


def conv_bn_relu(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    """Convolution without bias, batch normalisation, ReLU: (B, inputs, H, W) -> (B, outputs, H, W)."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )
