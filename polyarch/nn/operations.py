"""The operations of published spaces, built only from ``torch.nn`` classes, like the networks extracted from them.

NAS-Bench-201: Dong & Yang (2020), arXiv:2001.00326. DARTS: Liu et al. (2019), arXiv:1806.09055. NAS-Bench-101: Ying et
al. (2019), arXiv:1902.09635. Inverted residuals: Sandler et al. (2018), "MobileNetV2: Inverted Residuals and Linear
Bottlenecks", arXiv:1801.04381. Pre-activation: He et al. (2016), "Identity Mappings in Deep Residual Networks",
arXiv:1603.05027.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard, cast

import torch
from torch import Tensor, nn

from polyarch.nn.path_recording import Composed, call

NARROW = 16
"""1x1 convolutions with fewer inputs must not have a stride, see `pointwise`."""


def relu_conv_bn(inputs: int, outputs: int, kernel: int, *, stride: int = 1, affine: bool = True) -> nn.Sequential:
    """ReLU, convolution without bias, batch normalisation: (B, inputs, H, W) -> (B, outputs, H/stride, W/stride)."""
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs, affine=affine),
    )


def conv_bn_relu(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    """Convolution without bias, batch normalisation, ReLU: (B, inputs, H, W) -> (B, outputs, H, W)."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


def nb201_operation(name: str, channels: int, *, affine: bool, pool_convolution: bool = False) -> nn.Module | None:
    """An operation of the NAS-Bench-201 cell on (B, channels, H, W); ``None`` stands for ``none``.

    Args:
        pool_convolution: puts ReLU, a 1x1 convolution and batch normalisation before the pooling.
    """
    match name:
        case "none":
            return None
        case "skip_connect":
            return nn.Identity()
        case "nor_conv_1x1" | "nor_conv_3x3":
            return relu_conv_bn(channels, channels, int(name[-1]), affine=affine)
    pool = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
    return nn.Sequential(*relu_conv_bn(channels, channels, 1, affine=affine), pool) if pool_convolution else pool


def nb101_operation(name: str, channels: int) -> nn.Module:
    """An operation of the NAS-Bench-101 cells on (B, channels, H, W)."""
    if name == "maxpool3x3":
        return nn.MaxPool2d(3, stride=1, padding=1)
    return conv_bn_relu(channels, channels, 1 if name == "conv1x1-bn-relu" else 3)


def darts_operation(name: str, channels: int, *, stride: int, affine: bool) -> nn.Module:
    """An operation of the DARTS cells: (B, channels, H, W) -> (B, channels, H/stride, W/stride).

    Without scale and shift, poolings are normalised, as in the network that DARTS searches with.
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


def pointwise(inputs: int, outputs: int, *, stride: int = 1, pick_first: bool = False) -> nn.Module:
    """1x1 convolution without bias: (B, inputs, H, W) -> (B, outputs, H/stride, W/stride), rounded up.

    With few inputs, pixels are picked before the convolution. The result is the same, but oneDNN corrupts memory in the
    weight gradient of a strided 1x1 convolution of fewer than 16 channels-last inputs (8 without AVX-512; its issue
    6035).

    Args:
        pick_first: picks pixels first with any number of inputs, for layers that may lose inputs later.
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
    """MobileNetV2's block without its shortcut: 1x1 expansion, depthwise k x k convolution, 1x1 projection."""
    hidden = inputs * expansion
    return nn.Sequential(
        *conv_bn(inputs, hidden, 1),
        *conv_bn(hidden, hidden, kernel, stride=stride, groups=hidden),
        *conv_bn(hidden, outputs, 1, activation=False),
    )


class FactorizedReduce(Composed):
    """Halves the resolution without skipping pixels: (B, inputs, H, W) -> (B, outputs, H/2, W/2), rounded up.

    Half of the outputs read the pixels at even positions, the others those one further down and to the right.

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


def bottleneck(channels: int, inner: int, kernel: int = 3, *, bias: bool = False) -> nn.Sequential:
    """Pre-activation bottleneck without shortcut: BN-ReLU-1x1, BN-ReLU-kxk, BN-ReLU-1x1; keeps the shape."""
    return nn.Sequential(
        nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, inner, 1, bias=bias),
        nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, inner, kernel, padding=kernel // 2, bias=bias),
        nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, channels, 1, bias=bias),
    )  # fmt: skip


def ends_in_norm(operation: nn.Module | None) -> TypeGuard[nn.Sequential]:
    """Whether the last layer of an operation is a batch normalisation."""
    return isinstance(operation, nn.Sequential) and isinstance(operation[-1], nn.BatchNorm2d)


def raised(operation: nn.Module, x: Tensor, shift: Tensor) -> Tensor:
    """operation(x) + shift, (C, 1, 1), at no extra cost: the final normalisation layer adds the shift."""
    assert ends_in_norm(operation)
    bias = operation[-1]._parameters["bias"]
    return _ending(operation, x, {"bias": shift.flatten() if bias is None else bias + shift.flatten()})


def weighted(operation: nn.Module, x: Tensor, gate: Tensor) -> Tensor:
    """gate * operation(x), with a gate () or one that fits the output.

    A gate () becomes a factor of the final normalisation layer, if there is one, which makes the product and its
    gradient free.
    """
    if gate.dim():
        return gate * cast(Tensor, operation(x))
    if not ends_in_norm(operation):
        return cast(Tensor, _Scaled.apply(operation(x), gate))  # type: ignore[no-untyped-call]
    norm = cast(nn.BatchNorm2d, operation[-1])
    scale, bias = norm._parameters["weight"], norm._parameters["bias"]
    # Repeated, not expanded: torch's kernels read a scale with a stride of 0 beyond its end.
    affine = {"weight": gate.repeat(norm.num_features) if scale is None else gate * scale}
    return _ending(operation, x, affine if bias is None else {**affine, "bias": gate * bias})


class _Scaled(torch.autograd.Function):
    """gate * x for a gate (), with its gradient <dy, x> in one pass over both; torch's own multiplies, then sums."""

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
    """The inner product, summed in the order of memory: (B, C, H, W), (B, C, H, W) -> ()."""
    if first.dim() == 4 and first.is_contiguous(memory_format=torch.channels_last):
        first, second = first.permute(0, 2, 3, 1), second.permute(0, 2, 3, 1)
    return torch.dot(first.reshape(-1), second.reshape(-1))


def _ending(operation: nn.Sequential, x: Tensor, affine: Mapping[str, Tensor]) -> Tensor:
    """operation(x) with another scale or shift in its final normalisation layer."""
    *layers, norm = operation
    for layer in layers:
        x = layer(x)
    before = {name: norm._parameters[name] for name in affine}
    norm._parameters.update(cast(dict[str, nn.Parameter | None], affine))
    try:  # called as a module, for its statistics and hooks; `torch.func.functional_call` would cost too much
        return cast(Tensor, norm(x))
    finally:
        norm._parameters.update(before)
