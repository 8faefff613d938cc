"""How each operation treats channels: which outputs are zero, which inputs it reads, and what remains of it."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import reduce
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.nn.channel_flow import ChannelFlow, Mask
from polyarch.nn.operations import NARROW

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

Reads = Iterable[tuple[fx.Node, Mask]]


class Rule(ABC):
    """How an operation with some parameters treats channels; by default no output is zero and no input is read."""

    def __init__(self, parameters: Iterable[nn.Parameter] = ()) -> None:
        self.parameters = tuple(parameters)

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The output channels that are zero for any input."""
        return flow.nothing(node)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The input channels that the output channels in ``flow.read`` depend on."""
        return ()

    @abstractmethod
    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Adds the operation on the remaining channels to the new graph; returns its node and output channels."""

    def cost(self, flow: ChannelFlow, node: fx.Node) -> tuple[dict[nn.Parameter, int], float]:
        """How many numbers remain of each parameter, and the multiply-accumulates that remain per example."""
        return {parameter: parameter.numel() for parameter in self.parameters}, flow.macs[node]


class Input(Rule):
    """An input of the network, of which every channel stays."""

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Adds the input to the new graph."""
        return flow.input(node), flow.everything(node)


class BatchSize(Rule):
    """The batch size, which needs no channel because it is the same for all values."""

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Takes the batch size from the new graph's input."""
        return flow.batch_size(), flow.everything(node)


class Opaque(Rule):
    """An unknown operation, assumed to read and make all channels."""

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """All channels of all inputs."""
        return [(source, flow.everything(source)) for source in node.all_input_nodes]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Copies the operation unchanged."""
        return flow.repeat(node), flow.everything(node)


class Masked(Opaque):
    """A gate on a value whose channels are in dimension ``dim`` other than 1: dropped channels stay as zeros."""

    def __init__(self, name: str, dim: int) -> None:
        super().__init__()
        self.name = name
        self.dim = dim

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Multiplies the input by the mask."""
        (source,) = node.all_input_nodes
        value = flow.values[node]
        form = [1] * (-self.dim if self.dim < 0 else value.dim())  # no more dimensions than needed
        form[self.dim] = -1
        mask = flow.attribute(f"_kept_channels_{node.name}", flow.keep[self.name].to(value).view(form))
        return flow.graph.call_function(torch.mul, (flow.take(source), mask)), flow.everything(node)


class Channelwise(Rule):
    """Computes each output channel from the same channel of every input.

    Args:
        zeros: an output channel is zero if ``all`` inputs are zero there, if ``any`` is, or ``never``.
        parameters: weights that all channels share.
    """

    def __init__(self, zeros: Literal["all", "any", "never"], parameters: Iterable[nn.Parameter] = ()) -> None:
        super().__init__(parameters)
        self.zeros = zeros

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The channels in which all inputs, or any, are zero."""
        if self.zeros == "never":
            return flow.nothing(node)
        zeros = torch.stack([flow.zero[source] for source in node.all_input_nodes])
        return zeros.all(0) if self.zeros == "all" else zeros.any(0)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The same channels of every input."""
        return [(source, flow.read[node]) for source in node.all_input_nodes]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Applies the operation to the channels that are read."""
        return flow.repeat(node, flow.read[node]), flow.read[node]

    def cost(self, flow: ChannelFlow, node: fx.Node) -> tuple[dict[nn.Parameter, int], float]:
        """All shared parameters; multiply-accumulates in proportion to the channels."""
        sizes, macs = super().cost(flow, node)
        return sizes, macs * _share(flow.read[node])


class CutChannelwise(Channelwise):
    """A module with weights for each channel: batch normalisation, depthwise convolution, PReLU."""

    def __init__(self, module: nn.Module) -> None:
        keeps_zeros = isinstance(module, nn.PReLU) or (depthwise(module) and module.bias is None)
        super().__init__("all" if keeps_zeros else "never", module.parameters())

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Applies the module, cut to the channels that are read."""
        module = flow.own(node)
        _cut(module, flow.read[node])
        for name in ("num_features", "num_parameters", "in_channels", "out_channels", "groups"):
            if hasattr(module, name):
                setattr(module, name, int(flow.read[node].sum()))
        return super().make(flow, node)

    def cost(self, flow: ChannelFlow, node: fx.Node) -> tuple[dict[nn.Parameter, int], float]:
        """Parameters and multiply-accumulates in proportion to the channels."""
        (sizes, macs), share = super().cost(flow, node), _share(flow.read[node])
        return {parameter: round(size * share) for parameter, size in sizes.items()}, macs


class Gated(Channelwise):
    """A gate, which makes dropped channels zero."""

    def __init__(self, name: str) -> None:
        super().__init__("all")
        self.name = name

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The zero channels of the input and the dropped ones."""
        return super().zero(flow, node) | ~flow.keep[self.name]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Takes the input's channels that are read, without a gate."""
        return flow.take(node.all_input_nodes[0], flow.read[node]), flow.read[node]


class Layer(Rule):
    """A convolution without groups or a linear layer, which reads all channels that are not zero."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module.parameters())
        self.module = module

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """All channels of a layer without bias whose input is zero."""
        all_zero = bool(flow.zero[node.all_input_nodes[0]].all())
        return flow.everything(node) if all_zero and self.module.bias is None else flow.nothing(node)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """All channels that are not zero, whichever outputs are read."""
        (source,) = node.all_input_nodes
        return [(source, ~flow.zero[source])]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Applies the layer, cut to the remaining rows and columns; its bias alone if no column remains."""
        ((_, columns),) = self.reads(flow, node)
        rows, module = flow.read[node], flow.own(node)
        _cut(module, rows, columns)
        inputs, outputs = int(columns.sum()), int(rows.sum())
        if not inputs:
            return flow.constant(node, outputs, module.get_parameter("bias")), rows
        kind = "features" if isinstance(module, nn.Linear) else "channels"
        setattr(module, f"in_{kind}", inputs)
        setattr(module, f"out_{kind}", outputs)
        if isinstance(module, nn.Conv2d) and module.stride != (1, 1) and inputs < NARROW and _reads_pixels(module):
            taken = flow.take(node.all_input_nodes[0], columns)
            picked = flow.graph.call_function(F.avg_pool2d, (taken, 1, module.stride))
            module.stride = (1, 1)
            return flow.call(node, picked), rows
        return flow.repeat(node, columns), rows

    def cost(self, flow: ChannelFlow, node: fx.Node) -> tuple[dict[nn.Parameter, int], float]:
        """Kernel and multiply-accumulates in proportion to rows and columns, the bias in proportion to rows."""
        ((_, columns),) = self.reads(flow, node)
        rows, weight = _share(flow.read[node]), self.module.get_parameter("weight")
        sizes = {
            parameter: round(parameter.numel() * rows * (_share(columns) if parameter is weight else 1))
            for parameter in self.parameters
        }
        return sizes, flow.macs[node] * rows * _share(columns)


class Flattened(Rule):
    """Flattens (B, C, ...) to (B, C * size)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """All features of the channels that are zero."""
        return flow.zero[node.all_input_nodes[0]].repeat_interleave(self.size)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The channels of which at least one feature is read."""
        return [(node.all_input_nodes[0], flow.read[node].view(-1, self.size).any(1))]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Flattens the channels that are read."""
        ((source, channels),) = self.reads(flow, node)
        new = flow.graph.call_function(torch.flatten, (flow.take(source, channels), 1))
        return new, channels.repeat_interleave(self.size)


class Sum(Channelwise):
    """A sum of terms of equal shape, which leaves out terms that are zero."""

    def __init__(self) -> None:
        super().__init__("all")

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Adds up the terms that are not zero."""
        read = flow.read[node]
        terms = [term for term in node.args if isinstance(term, fx.Node) and (read & ~flow.zero[term]).any()]
        parts = [flow.take(term, read) for term in terms]
        return reduce(lambda total, part: flow.graph.call_function(operator.add, (total, part)), parts), read


class Concatenated(Rule):
    """A concatenation of values along their channels."""

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The zero channels of all parts, concatenated."""
        return torch.cat([flow.zero[part] for part in self._parts(node)])

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The channels that each part contributes to those that are read."""
        parts = self._parts(node)
        return zip(parts, flow.read[node].split([len(flow.zero[part]) for part in parts]), strict=True)

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Concatenates the parts of which at least one channel is read."""
        parts = [flow.take(part, read) for part, read in self.reads(flow, node) if read.any()]
        new = parts[0] if len(parts) == 1 else flow.graph.call_function(torch.cat, (parts, 1))
        return new, flow.read[node]

    @staticmethod
    def _parts(node: fx.Node) -> list[fx.Node]:
        parts: Any = node.args[0] if node.args else node.kwargs["tensors"]
        return list(parts)


def depthwise(module: nn.Module) -> bool:
    """Whether a module is a convolution of each channel by itself."""
    convolution = isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
    return convolution and module.groups == module.in_channels == module.out_channels


def _reads_pixels(module: nn.Conv2d) -> bool:
    """Whether each output depends on a single pixel; for strides with few inputs see `operations.pointwise`."""
    return module.kernel_size == (1, 1) and module.padding in ((0, 0), "valid", "same")


def _share(mask: Mask) -> float:
    return float(mask.sum()) / len(mask)


def _cut(module: nn.Module, rows: Mask, columns: Mask | None = None) -> None:
    """Keeps these rows of all tensors of a layer, and these columns of its kernel."""
    for name, parameter in list(module.named_parameters(recurse=False)):
        value = _taken(parameter.detach(), 0, rows)
        value = _taken(value, 1, columns) if columns is not None and name == "weight" else value
        if parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last):
            value = value.contiguous(memory_format=torch.channels_last)
        setattr(module, name, nn.Parameter(value, requires_grad=parameter.requires_grad))
    for name, buffer in module.named_buffers(recurse=False):
        if buffer.dim():  # all but the count of batches
            setattr(module, name, _taken(buffer, 0, rows))


def _taken(value: Tensor, dim: int, mask: Mask) -> Tensor:
    """Copies the entries of a dimension that a mask selects, by position because masks fail on the meta device."""
    return value.index_select(dim, mask.nonzero().flatten().to(value.device))
