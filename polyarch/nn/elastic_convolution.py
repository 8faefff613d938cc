"""Convolutions whose width and kernel size are choices.

Leading channels: Yu et al. (2019), "Slimmable Neural Networks", arXiv:1812.08928. Kernels from the centre of larger
ones, with a learned transform: Cai et al. (2020), "Once-for-All: Train One Network and Specialize it for Efficient
Deployment", arXiv:1908.09791.
"""

import operator
from collections.abc import Iterator, Mapping
from functools import cached_property, reduce
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.block_selection import Selections
from polyarch.nn.elastic_layers import ElasticLayer, memory_format_of
from polyarch.nn.sizes import SizeChoice, Sizes, combinations, united

_Pair = tuple[int, int]


class ElasticConv2d(ElasticLayer, nn.Conv2d):
    """``nn.Conv2d`` with elastic sizes: ``ElasticConv2d(3, Sizes("width", 16, 32), Sizes("kernel", 3, 5), padding=2)``.

    A smaller kernel is the centre of the next larger one, transformed: with the k^2 entries of the centre of every
    channel as a vector v, the kernel of size k is v + D_k v, where D_k (k^2, k^2) is learned, shared by all channels
    and starts at zero. Gates mix kernels, of which the smaller ones are surrounded by zeros.

    Args:
        in_channels: a number or `Sizes`.
        out_channels: a number or `Sizes`.
        kernel_size: a number or `Sizes` that are all odd or all even.
        padding: of the largest kernel. Smaller kernels have less, so that the output keeps its height and width.
        groups: of the largest layer. Narrower layers have proportionally fewer groups of the same size, so that
            ``groups=width`` is a depthwise convolution.
    """

    def __init__(
        self,
        in_channels: int | Sizes,
        out_channels: int | Sizes,
        kernel_size: int | Sizes,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int | Sizes = 1,
        bias: bool = True,
    ) -> None:
        inputs, outputs, kernel = Sizes.of(in_channels), Sizes.of(out_channels), Sizes.of(kernel_size)
        most = Sizes.of(groups).largest
        nn.Conv2d.__init__(self, inputs.largest, outputs.largest, kernel.largest, stride, padding, dilation, most, bias)
        self.inputs, self.outputs, self.kernel = inputs, outputs, kernel
        self.kernels = sorted(set(kernel.table), reverse=True)
        for size in self.kernels[1:]:
            # Registered one by one: in a list of parameters the layer would have a child and be no leaf of the network.
            self.register_parameter(f"transform{size}", nn.Parameter(torch.zeros(size**2, size**2)))
        _require_kernels(self)
        _require_groups(self)

    @cached_property
    def sources(self) -> tuple[SizeChoice, ...]:
        """The choices of sizes of its inputs, outputs and kernel."""
        return united(self.inputs, self.outputs, self.kernel)

    def shapes(self, selections: Selections) -> dict[str, tuple[int, ...]]:
        """weight (out, in / groups, k, k), bias (out,)."""
        outputs, size = self.outputs.extent(selections), self.kernel.extent(selections)
        weight = (outputs, self.inputs.extent(selections) // self._groups_at(selections), size, size)
        return {"weight": weight} | ({} if self.bias is None else {"bias": (outputs,)})

    def slices(self, selections: Selections) -> dict[str, Tensor]:
        """The used parts, with the kernel of the largest size that runs."""
        found = {"weight": self._kernel(selections, self.kernel.extent(selections))}
        return found | ({} if self.bias is None else {"bias": self.bias[: self.outputs.extent(selections)]})

    def pieces(self, indices: Mapping[str, int]) -> Iterator[tuple[nn.Parameter, tuple[slice, ...]]]:
        """Leading channels, and the centre of the kernel."""
        for parameter, part in super().pieces(indices):
            margin = (self.kernels[0] - self.kernel.extent(indices)) // 2
            middle = slice(margin, self.kernels[0] - margin)
            yield parameter, (*part[:2], middle, middle)[: parameter.dim()]

    def compute(self, x: Tensor, selections: Selections) -> Tensor:
        """(B, in, H, W) -> (B, out, H', W')."""
        outputs = self.outputs.extent(selections)
        bias = None if self.bias is None else self.bias[:outputs]
        size = self.kernel.chosen(selections)
        if size is None:
            y = self._mixed(x, bias, selections)
        else:
            y = self._convolve(x, self._kernel(selections, size), bias)
        return self.outputs.masked(y, selections, self.dim)

    def _mixed(self, x: Tensor, bias: Tensor | None, selections: Selections) -> Tensor:
        """The mixture over kernel sizes."""
        sizes, weights = self.kernel.among(selections)
        assert weights is not None
        weights = weights.to(x)
        kernels = [self._kernel(selections, size) for size in sizes]
        if weights.dim() == 1:  # one convolution with the mixed kernel
            padded = [F.pad(kernel, [(max(sizes) - kernel.shape[-1]) // 2] * 4) for kernel in kernels]
            bias = None if bias is None else bias * weights.sum()
            return self._convolve(x, reduce(operator.add, map(operator.mul, weights.unbind(), padded)), bias)
        gates = weights[..., None, None, None].unbind(1)  # each (B, 1, 1, 1)
        outputs = [self._convolve(x, kernel, bias) for kernel in kernels]
        return cast(Tensor, reduce(operator.add, map(operator.mul, gates, outputs)))

    def plain(self, indices: Mapping[str, int], **factory: Any) -> nn.Module:
        """An ``nn.Conv2d``."""
        size, groups = self.kernel.extent(indices), self._groups_at(indices)
        inputs, outputs = self.inputs.extent(indices), self.outputs.extent(indices)
        stride, dilation = cast(_Pair, self.stride), cast(_Pair, self.dilation)
        padding, bias = self._padding_of(size), self.bias is not None
        return nn.Conv2d(inputs, outputs, size, stride, padding, dilation, groups, bias, **factory)

    def extra_repr(self) -> str:
        """The sizes, where they are choices."""
        return f"{super().extra_repr()}, kernel={self.kernel}" if self.kernel.sources else super().extra_repr()

    def _groups_at(self, selections: Selections) -> int:
        return self.groups * self.inputs.extent(selections) // self.in_channels if self.groups > 1 else 1

    def _padding_of(self, size: int) -> int:
        """Less than that of the largest kernel by what its margin covers."""
        (padding, _), (dilation, _) = cast(_Pair, self.padding), cast(_Pair, self.dilation)
        return padding - dilation * (self.kernels[0] - size) // 2

    def _convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        groups = x.shape[1] // weight.shape[1]
        return F.conv2d(x, weight, bias, self.stride, self._padding_of(weight.shape[-1]), self.dilation, groups)

    def _kernel(self, selections: Selections, size: int) -> Tensor:
        """(out, in / groups, k, k)."""
        outputs, inputs = self.outputs.extent(selections), self.inputs.extent(selections) // self._groups_at(selections)
        smaller = [step for step in self.kernels[1:] if step >= size]
        kernel = _cropped(self.weight, outputs, inputs, smaller[0] if smaller else size)
        for step in smaller:
            kernel = _transformed(_cropped(kernel, outputs, inputs, step), getattr(self, f"transform{step}"))
        return kernel


def _cropped(kernel: Tensor, outputs: int, inputs: int, size: int) -> Tensor:
    """Leading channels and the centre of the kernel, as a dense tensor in the same memory format; see `leading`."""
    if kernel.shape == (outputs, inputs, size, size):
        return kernel
    margin = (kernel.shape[-1] - size) // 2
    return F.pad(kernel, [-margin] * 4 + [0, inputs - kernel.shape[1], 0, outputs - len(kernel)])


def _transformed(centre: Tensor, transform: Tensor) -> Tensor:
    """v + D v for the kernel v of every channel, with D (k^2, k^2): (out, in, k, k) -> (out, in, k, k)."""
    outputs, inputs, size, _ = centre.shape
    v = centre.permute(0, 2, 3, 1).reshape(outputs, size**2, inputs)
    smaller = torch.baddbmm(v, transform.expand(outputs, -1, -1), v).view(outputs, size, size, inputs)
    return smaller.permute(0, 3, 1, 2).contiguous(memory_format=memory_format_of(centre))


def _require_kernels(layer: ElasticConv2d) -> None:
    largest, smallest = layer.kernels[0], layer.kernels[-1]
    if any((largest - size) % 2 for size in layer.kernels):
        raise InvalidInput(f"Expected kernel sizes that are all odd or all even. Got {layer.kernel}.")
    if layer._padding_of(smallest) < 0:
        raise InvalidInput(
            f"Expected a padding of {layer.dilation[0] * (largest - smallest) // 2} or more for {layer.kernel}, "
            f"so that all kernels give outputs of one size. Got {layer.padding[0]}."
        )


def _require_groups(layer: ElasticConv2d) -> None:
    """With other numbers of channels per group, a narrow layer would not be a part of the largest."""
    if layer.groups == 1:
        return
    fed, read = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    for indices in combinations(united(layer.inputs, layer.outputs)):
        inputs, outputs = layer.inputs.extent(indices), layer.outputs.extent(indices)
        if inputs % fed or outputs != inputs // fed * read:
            raise InvalidInput(
                f"Expected groups of {fed} input and {read} output channels at every size. "
                f"Got {inputs} inputs and {outputs} outputs."
            )
