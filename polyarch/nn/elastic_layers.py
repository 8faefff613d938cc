"""Layers whose sizes are choices: the weights of a smaller layer are a slice of those of the largest.

Leading channels: Yu et al. (2019), "Slimmable Neural Networks", arXiv:1812.08928. Kernels from the centre of larger
ones, with a learned transform: Cai et al. (2020), "Once-for-All: Train One Network and Specialize it for Efficient
Deployment", arXiv:1908.09791.
"""

import math
import operator
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property, reduce
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.errors import InvalidInput
from polyarch.nn.block_selection import SearchModule, Selections
from polyarch.nn.kernel_slices import kernel_slice
from polyarch.nn.path_recording import call
from polyarch.nn.sizes import SizeChoice, Sizes, combinations, united

_Pair = tuple[int, int]


class ElasticLayer(SearchModule):
    """A torch layer of which an architecture uses a slice, with the weights of the largest.

    Its arguments are those of the torch layer, with `Sizes` in place of numbers where the architecture may vary. Its
    ``state_dict`` is that of the largest torch layer, so that pretrained weights load. Gradients are zero outside the
    slice that a path uses. An extracted network has a plain torch layer with a copy of the slice.

    Mixed passes compute the largest size that runs and weigh channel c of the output by
    m_c = sum_o gate_o [c < size_o], which for one-hot gates is the hard path with zeros in place of missing channels.
    What stands between two elastic layers should therefore keep zeros: ReLU, GELU, pooling and additions do, a sigmoid
    does not.
    """

    inputs: Sizes
    outputs: Sizes
    dim: ClassVar[int] = 1
    """The dimension of the channels."""

    @cached_property
    def sources(self) -> tuple[SizeChoice, ...]:
        """The choices of sizes of its inputs and outputs."""
        return united(self.inputs, self.outputs)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its choices."""
        return super().names

    @abstractmethod
    def shapes(self, selections: Selections) -> dict[str, tuple[int, ...]]:
        """The shapes of the used slices of parameters, by name."""

    @abstractmethod
    def compute(self, x: Tensor, selections: Selections) -> Tensor:
        """The output at the largest size that runs, with weighted channels in a mixed pass."""

    @abstractmethod
    def plain(self, indices: Mapping[str, int], **factory: Any) -> nn.Module:
        """A torch layer of the selected size; its parameters are replaced."""

    def run_selected(self, selections: Selections, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of the slice, or of the largest slice with weighted channels."""
        x: Any = args[0] if args else kwargs["input"]
        if isinstance(x, fx.Proxy):
            indices = cast(Mapping[str, int], selections)  # only hard paths are recorded
            return call(self.extracted(indices, {}), cast(Tensor, x), known_as=self)
        expected = self.inputs.extent(selections)
        if x.shape[self.dim] != expected:
            raise InvalidInput(
                f"Expected {expected} input channels of {type(self).__name__}, which {self.inputs} says. "
                f"Got {x.shape[self.dim]} in shape {tuple(x.shape)}."
            )
        return self.compute(x, selections)

    def extracted(self, indices: Mapping[str, int], memo: dict[int, Any]) -> nn.Module:
        """A torch layer of the selected size with copies of the slices."""
        first = next(self.parameters(), None)
        plain = self.plain(indices, device="meta", dtype=None if first is None else first.dtype)
        with torch.no_grad():
            for name, value in self.slices(indices).items():
                requires_grad = self.get_parameter(name).requires_grad
                setattr(plain, name, nn.Parameter(_copied(value, self.get_parameter(name)), requires_grad))
            for name, buffer in self.named_buffers(recurse=False):
                setattr(plain, name, buffer[: self.outputs.extent(indices)].clone() if buffer.dim() else buffer.clone())
        return plain.train(self.training)

    def parameter_count(self, indices: Mapping[str, int]) -> int:
        """The number of weights of the selected size."""
        return sum(map(math.prod, self.shapes(indices).values()))

    def slices(self, selections: Selections) -> dict[str, Tensor]:
        """The used parts of the parameters, by name."""
        return {
            name: getattr(self, name)[tuple(slice(size) for size in shape)]
            for name, shape in self.shapes(selections).items()
        }

    def extra_repr(self) -> str:
        """The sizes, where they are choices."""
        found = {"inputs": self.inputs, "outputs": self.outputs}
        return ", ".join([super().extra_repr(), *(f"{k}={v}" for k, v in found.items() if v.sources)])


class ElasticLinear(ElasticLayer, nn.Linear):
    """``nn.Linear`` with elastic sizes: ``ElasticLinear(64, Sizes("width", 16, 32))``.

    Args:
        in_features: a number or `Sizes`; after `nn.Flatten` of k pixels, ``sizes * k``.
        out_features: a number or `Sizes`.
    """

    dim = -1

    def __init__(self, in_features: int | Sizes, out_features: int | Sizes, bias: bool = True) -> None:
        inputs, outputs = Sizes.of(in_features), Sizes.of(out_features)
        nn.Linear.__init__(self, inputs.largest, outputs.largest, bias)
        self.inputs, self.outputs = inputs, outputs

    def shapes(self, selections: Selections) -> dict[str, tuple[int, ...]]:
        """weight (out, in), bias (out,)."""
        inputs, outputs = self.inputs.extent(selections), self.outputs.extent(selections)
        return {"weight": (outputs, inputs)} | ({} if self.bias is None else {"bias": (outputs,)})

    def compute(self, x: Tensor, selections: Selections) -> Tensor:
        """(..., in) -> (..., out)."""
        return self.outputs.masked(F.linear(x, **self.slices(selections)), selections, self.dim)

    def plain(self, indices: Mapping[str, int], **factory: Any) -> nn.Module:
        """An ``nn.Linear``."""
        inputs, outputs = self.inputs.extent(indices), self.outputs.extent(indices)
        return nn.Linear(inputs, outputs, self.bias is not None, **factory)


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
        return super().slices(selections) | {"weight": self._kernel(selections, self.kernel.extent(selections))}

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
        return max(self.groups * self.inputs.extent(selections) // self.in_channels, 1)

    def _padding_of(self, size: int) -> int:
        """Less than that of the largest kernel by what its margin covers."""
        (padding, _), (dilation, _) = cast(_Pair, self.padding), cast(_Pair, self.dilation)
        return padding - dilation * (self.kernels[0] - size) // 2

    def _convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        groups = x.shape[1] // weight.shape[1]
        return F.conv2d(x, weight, bias, self.stride, self._padding_of(weight.shape[-1]), self.dilation, groups)

    def _kernel(self, selections: Selections, size: int) -> Tensor:
        """(out, in / groups, k, k)."""
        inputs = self.inputs.extent(selections) // self._groups_at(selections)
        transforms = [getattr(self, f"transform{smaller}") for smaller in self.kernels[1:] if smaller >= size]
        return kernel_slice(self.weight, self.outputs.extent(selections), inputs, transforms)


def _copied(value: Tensor, parameter: Tensor) -> Tensor:
    """A dense copy of a slice in the memory format of the parameter that it is from."""
    last = parameter.dim() == 4 and parameter.shape[1] > 1 and parameter.stride(1) == 1
    return value.clone(memory_format=torch.channels_last if last else torch.contiguous_format)


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
