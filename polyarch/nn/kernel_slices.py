"""Slices of the weight of a convolution: leading channels, and the centre of the kernel with a learned transform.

Cai et al. (2020), "Once-for-All: Train One Network and Specialize it for Efficient Deployment", arXiv:1908.09791.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def kernel_slice(weight: Tensor, outputs: int, inputs: int, transforms: Sequence[Tensor]) -> Tensor:
    """The weight of a smaller convolution, (out, in, k, k), from that of the largest, (O, I, K, K).

    Every transform D (k^2, k^2) makes the kernel smaller: with the centre of size k of every channel as a vector v, the
    next kernel is v + D v. Without transforms the kernel keeps its size.

    Autograd would record a dozen operations, half of which fill tensors as large as the weight. Here the gradient takes
    one such tensor, in the memory format of the weight.
    """
    if not transforms and weight.shape[:2] == (outputs, inputs):
        return weight
    if torch._C._are_functorch_transforms_active():
        return _sliced(weight, outputs, inputs, transforms)
    sliced: Tensor = _KernelSlice.apply(weight, outputs, inputs, *transforms)  # type: ignore[no-untyped-call]
    return sliced


def _sliced(weight: Tensor, outputs: int, inputs: int, transforms: Sequence[Tensor]) -> Tensor:
    kernel = weight[:outputs, :inputs]
    if transforms:
        kernel = _unflattened(_transformed(_centres(kernel, transforms)[-1], transforms[-1]))
    # A depthwise kernel has both formats.
    last = weight.shape[1] > 1 and weight.stride(1) == 1
    return kernel.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


class _KernelSlice(torch.autograd.Function):
    """`_sliced`, without ``setup_context``, for which torch would inspect the arguments of every call."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, outputs: int, inputs: int, *transforms: Tensor) -> Tensor:
        ctx.save_for_backward(weight, *transforms)
        ctx.used = slice(outputs), slice(inputs)
        return _sliced(weight, outputs, inputs, transforms)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        # Only differentiable operations, because gradients through training take the gradient of this.
        (slope,), (weight, *transforms) = gradients, ctx.saved_tensors
        of_transforms: list[Tensor] = []
        if transforms:
            centres = _centres(weight[ctx.used], transforms)
            for centre, transform in zip(reversed(centres), reversed(transforms), strict=True):
                flat = _flattened(slope, math.isqrt(len(transform)))
                of_transforms.insert(0, (flat @ centre.mT).sum(0))
                slope = _unflattened(_transformed(flat, transform.mT))
        margin = (weight.shape[-1] - slope.shape[-1]) // 2
        middle = slice(margin, margin + slope.shape[-1])
        whole = torch.zeros_like(weight)
        whole[(*ctx.used, middle, middle)] = slope
        return whole, None, None, *of_transforms


def _centres(kernel: Tensor, transforms: Sequence[Tensor]) -> list[Tensor]:
    """The vectors v that the transforms apply to, each (out, k^2, in)."""
    found = [_flattened(kernel, math.isqrt(len(transforms[0])))]
    for before, after in itertools.pairwise(transforms):
        found.append(_flattened(_unflattened(_transformed(found[-1], before)), math.isqrt(len(after))))
    return found


def _transformed(v: Tensor, transform: Tensor) -> Tensor:
    """v + D v: (out, k^2, in) -> (out, k^2, in)."""
    return torch.baddbmm(v, transform.expand(len(v), *transform.shape), v)


def _flattened(kernel: Tensor, size: int) -> Tensor:
    """The centre of a kernel, or the kernel with zeros around it: (out, in, k, k) -> (out, size^2, in)."""
    margin = (kernel.shape[-1] - size) // 2
    if margin < 0:
        kernel = F.pad(kernel, [-margin] * 4)
    elif margin > 0:
        kernel = kernel[..., margin : margin + size, margin : margin + size]
    outputs, inputs, *_ = kernel.shape
    return kernel.permute(0, 2, 3, 1).reshape(outputs, size**2, inputs)


def _unflattened(v: Tensor) -> Tensor:
    """(out, k^2, in) -> (out, in, k, k)."""
    outputs, area, inputs = v.shape
    size = math.isqrt(area)
    return v.view(outputs, size, size, inputs).permute(0, 3, 1, 2)
