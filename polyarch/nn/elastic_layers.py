"""Layers whose sizes are choices: the weights of a smaller layer are the leading channels of those of the largest.

Yu et al. (2019), "Slimmable Neural Networks", arXiv:1812.08928.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.errors import InvalidInput
from polyarch.nn.block_selection import SearchModule, Selections
from polyarch.nn.path_recording import call
from polyarch.nn.sizes import SizeChoice, Sizes, united


class ElasticLayer(SearchModule):
    """A torch layer of which an architecture uses a slice, with the weights of the largest.

    Its arguments are those of the torch layer, with `Sizes` in place of numbers where the architecture may vary. It
    loads the ``state_dict`` of the largest torch layer. Gradients are zero outside the slice that a path uses. An
    extracted network has a plain torch layer with a copy of the slice.

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
        plain = self.plain(indices, device="meta")
        with torch.no_grad():
            for name, value in self.slices(indices).items():
                whole = self.get_parameter(name)
                copied = value.clone(memory_format=memory_format_of(whole))
                setattr(plain, name, nn.Parameter(copied, whole.requires_grad))
            for name, buffer in self.named_buffers(recurse=False):
                setattr(plain, name, buffer[: self.outputs.extent(indices)].clone() if buffer.dim() else buffer.clone())
        return plain.train(self.training)

    def pieces(self, indices: Mapping[str, int]) -> Iterator[tuple[nn.Parameter, tuple[slice, ...]]]:
        """The parameters that a path uses a slice of, and which part of each."""
        for name, shape in self.shapes(indices).items():
            yield self.get_parameter(name), tuple(map(slice, shape))

    def parameter_count(self, indices: Mapping[str, int]) -> int:
        """The number of weights of the selected size."""
        return sum(map(math.prod, self.shapes(indices).values()))

    def slices(self, selections: Selections) -> dict[str, Tensor]:
        """The used parts of the parameters, by name."""
        return {name: leading(getattr(self, name), shape) for name, shape in self.shapes(selections).items()}

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


def leading(weight: Tensor, shape: Sequence[int]) -> Tensor:
    """The leading entries in every dimension, as a dense tensor.

    A padding by negative widths is one operation, and so is its gradient; those of slices would fill a tensor as large
    as the weight for every dimension, in a memory format that may be another one.
    """
    if weight.shape == tuple(shape):
        return weight
    margins = zip(reversed(shape), reversed(weight.shape), strict=True)
    return F.pad(weight, [side for wanted, whole in margins for side in (0, wanted - whole)])


def memory_format_of(weight: Tensor) -> torch.memory_format:
    """The memory format of a weight or a slice of it; a depthwise kernel has both."""
    last = weight.dim() == 4 and weight.stride(3) >= weight.shape[1] > 1  # of 1x1 kernels, too
    return torch.channels_last if last else torch.contiguous_format
