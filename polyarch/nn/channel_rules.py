"""What the operations of a network do to channels: which they make zero, which they read, what is left of them."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.nn.channel_flow import ChannelFlow, Mask
from polyarch.nn.operations import NARROW

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

Reads = Iterable[tuple[fx.Node, Mask]]


class Rule(ABC):
    """What an operation does to channels; unless said otherwise, none is zero, and none of another value is read."""

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The channels of the output that are zero for any input."""
        return flow.nothing(node)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The channels of the inputs that the channels of the output that are read are made of."""
        return ()

    @abstractmethod
    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """The operation on what is left, in the new graph, and the channels that it gives."""

    def sizes(self, flow: ChannelFlow, node: fx.Node) -> dict[nn.Parameter, int]:
        """How many numbers are left of the parameters that the operation has; those that several share are the same."""
        return {}

    def macs(self, flow: ChannelFlow, node: fx.Node) -> float:
        """Multiply-accumulates of what is left, for one example."""
        return flow.macs[node]


class Input(Rule):
    """What goes into the network."""

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """The input of the new graph."""
        return flow.graph.placeholder("x"), flow.everything(node)


class BatchSize(Rule):
    """B is the same everywhere, so nothing is read for it."""

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """The size of the new graph's input."""
        return flow.batch_size(), flow.everything(node)


class Opaque(Rule):
    """Nothing is known of it: it reads and gives everything.

    Args:
        parameters: what it computes with.
    """

    def __init__(self, parameters: Iterable[nn.Parameter] = ()) -> None:
        self.parameters = tuple(parameters)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """All channels of all inputs."""
        return [(source, flow.everything(source)) for source in node.all_input_nodes]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """The operation as it is."""
        return flow.repeat(node), flow.everything(node)

    def sizes(self, flow: ChannelFlow, node: fx.Node) -> dict[nn.Parameter, int]:
        """All of them."""
        return {parameter: parameter.numel() for parameter in self.parameters}


class Masked(Opaque):
    """A gate on something that has its channels elsewhere, e.g. last of several dimensions: they stay, as zeros.

    Args:
        dim: where they are.
    """

    def __init__(self, name: str, dim: int) -> None:
        super().__init__()
        self.name = name
        self.dim = dim

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """A product with the mask."""
        (source,) = node.all_input_nodes
        value = flow.values[node]
        form = [1] * (-self.dim if self.dim < 0 else value.dim())  # no more dimensions than it takes
        form[self.dim] = -1
        mask = flow.attribute(f"_kept_channels_{node.name}", flow.keep[self.name].to(value).view(form))
        return flow.graph.call_function(torch.mul, (flow.take(source), mask)), flow.everything(node)


class Channelwise(Rule):
    """Every channel by itself.

    Args:
        zero_to_zero: whether it makes zeros of zeros.
        parameters: what it computes with, for all channels alike.
    """

    def __init__(self, *, zero_to_zero: bool, parameters: Iterable[nn.Parameter] = ()) -> None:
        self.zero_to_zero = zero_to_zero
        self.parameters = tuple(parameters)

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """Those of the input, or none."""
        return flow.zero[node.all_input_nodes[0]] if self.zero_to_zero else flow.nothing(node)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The same channels."""
        return [(node.all_input_nodes[0], flow.read[node])]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """The operation on what is read."""
        return flow.repeat(node, flow.read[node]), flow.read[node]

    def sizes(self, flow: ChannelFlow, node: fx.Node) -> dict[nn.Parameter, int]:
        """All of them."""
        return {parameter: parameter.numel() for parameter in self.parameters}

    def macs(self, flow: ChannelFlow, node: fx.Node) -> float:
        """In proportion to the channels."""
        return flow.macs[node] * _share(flow.read[node])


class CutChannelwise(Channelwise):
    """Every channel by itself, with its own weights: batch normalisation, depthwise convolution, a slope each."""

    def __init__(self, module: nn.Module) -> None:
        unbiased = depthwise(module) and module.bias is None
        super().__init__(zero_to_zero=unbiased or isinstance(module, nn.PReLU))
        self.module = module

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """The operation on what is read, with its weights alone."""
        module = flow.own(node)
        _cut(module, flow.read[node])
        for name in ("num_features", "num_parameters", "in_channels", "out_channels", "groups"):
            if hasattr(module, name):
                setattr(module, name, int(flow.read[node].sum()))
        return super().make(flow, node)

    def sizes(self, flow: ChannelFlow, node: fx.Node) -> dict[nn.Parameter, int]:
        """In proportion to the channels."""
        share = _share(flow.read[node])
        return {parameter: round(parameter.numel() * share) for parameter in self.module.parameters()}


class Gated(Channelwise):
    """A gate: what is dropped is zero."""

    def __init__(self, name: str) -> None:
        super().__init__(zero_to_zero=True)
        self.name = name

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """Those of the input and the dropped ones."""
        return super().zero(flow, node) | ~flow.keep[self.name]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """The input's channels that are read."""
        return flow.take(node.all_input_nodes[0], flow.read[node]), flow.read[node]


class Layer(Rule):
    """A convolution without groups or a linear layer: reads all that is not zero."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """All of a layer with neither input nor bias."""
        all_zero = bool(flow.zero[node.all_input_nodes[0]].all())
        return flow.everything(node) if all_zero and self.module.bias is None else flow.nothing(node)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """Whatever the output, all that is not zero."""
        (source,) = node.all_input_nodes
        return [(source, ~flow.zero[source])]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """The layer with the rows and columns that are left, or its bias."""
        ((_, columns),) = self.reads(flow, node)
        rows, module = flow.read[node], flow.own(node)
        _cut(module, rows, columns)
        inputs, outputs = int(columns.sum()), int(rows.sum())
        if not inputs:
            return flow.constant(node, outputs, module.get_parameter("bias")), rows
        linear = isinstance(module, nn.Linear)
        names = ("in_features", "out_features") if linear else ("in_channels", "out_channels")
        for name, count in zip(names, (inputs, outputs), strict=True):
            setattr(module, name, count)
        if isinstance(module, nn.Conv2d) and module.stride != (1, 1) and inputs < NARROW and _reads_pixels(module):
            picked = flow.graph.call_function(
                F.avg_pool2d, (flow.take(node.all_input_nodes[0], columns), 1, module.stride)
            )
            module.stride = (1, 1)
            return flow.call(node, picked), rows
        return flow.repeat(node, columns), rows

    def sizes(self, flow: ChannelFlow, node: fx.Node) -> dict[nn.Parameter, int]:
        """In proportion to rows and columns of the kernel, and to rows of the bias."""
        ((_, columns),) = self.reads(flow, node)
        rows, weight = _share(flow.read[node]), self.module.get_parameter("weight")
        sizes = {weight: round(weight.numel() * rows * _share(columns))}
        if self.module.bias is not None:
            bias = self.module.get_parameter("bias")
            sizes[bias] = round(bias.numel() * rows)
        return sizes

    def macs(self, flow: ChannelFlow, node: fx.Node) -> float:
        """In proportion to rows and columns."""
        ((_, columns),) = self.reads(flow, node)
        return flow.macs[node] * _share(flow.read[node]) * _share(columns)


class Flattened(Rule):
    """(B, C, ...) -> (B, C * size)."""

    def __init__(self, size: int) -> None:
        self.size = size

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """All features of a channel that is zero."""
        return flow.zero[node.all_input_nodes[0]].repeat_interleave(self.size)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The channels of which a feature is read."""
        return [(node.all_input_nodes[0], flow.read[node].view(-1, self.size).any(1))]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """All features of the channels that are read."""
        ((source, channels),) = self.reads(flow, node)
        new = flow.graph.call_function(torch.flatten, (flow.take(source, channels), 1))
        return new, channels.repeat_interleave(self.size)


class Sum(Rule):
    """Terms of one shape; those that are zero are left out."""

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """Where all terms are."""
        return torch.stack([flow.zero[term] for term in node.all_input_nodes]).all(0)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The same channels of every term."""
        return [(term, flow.read[node]) for term in node.all_input_nodes]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """The sum of the terms that are left."""
        read = flow.read[node]
        terms = [term for term in node.args if isinstance(term, fx.Node) and (read & ~flow.zero[term]).any()]
        parts = [flow.take(term, read) for term in terms]
        return reduce(lambda total, part: flow.graph.call_function(operator.add, (total, part)), parts), read


class Pair(Rule):
    """Two values with the same channels, channel by channel.

    Args:
        product: whether zero times something is zero; otherwise it takes two.
    """

    def __init__(self, *, product: bool) -> None:
        self.product = product

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """Where one factor is, or both sides of a difference."""
        zeros = torch.stack([flow.zero[side] for side in node.all_input_nodes])
        return zeros.any(0) if self.product else zeros.all(0)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The same channels of both."""
        return [(side, flow.read[node]) for side in node.all_input_nodes]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """The operation on what is read."""
        return flow.repeat(node, flow.read[node]), flow.read[node]


class Concatenated(Rule):
    """Values side by side."""

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """Those of the parts."""
        return torch.cat([flow.zero[part] for part in self._parts(node)])

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """Of every part its share."""
        parts = self._parts(node)
        return zip(parts, flow.read[node].split([len(flow.zero[part]) for part in parts]), strict=True)

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """The parts that are left, side by side."""
        parts = [flow.take(part, read) for part, read in self.reads(flow, node) if read.any()]
        new = parts[0] if len(parts) == 1 else flow.graph.call_function(torch.cat, (parts, 1))
        return new, flow.read[node]

    @staticmethod
    def _parts(node: fx.Node) -> list[fx.Node]:
        parts: Any = node.args[0] if node.args else node.kwargs["tensors"]
        return list(parts)


def depthwise(module: nn.Module) -> bool:
    """Whether a module is a convolution of every channel by itself."""
    convolution = isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
    return convolution and module.groups == module.in_channels == module.out_channels


def _reads_pixels(module: nn.Conv2d) -> bool:
    """Whether every output is made of one pixel; with a stride and few inputs see `polyarch.nn.operations.pointwise`."""
    return module.kernel_size == (1, 1) and module.padding in ((0, 0), "valid", "same")


def _share(mask: Mask) -> float:
    """Of the channels."""
    return float(mask.sum()) / len(mask)


def _cut(module: nn.Module, rows: Mask, columns: Mask | None = None) -> None:
    """Keeps these rows of all tensors of a layer, and of a kernel these columns."""
    for name, parameter in list(module.named_parameters(recurse=False)):
        value = _taken(parameter.detach(), 0, rows)
        value = _taken(value, 1, columns) if columns is not None and name == "weight" else value
        if parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last):
            value = value.contiguous(memory_format=torch.channels_last)
        setattr(module, name, nn.Parameter(value, requires_grad=parameter.requires_grad))
    for name, buffer in module.named_buffers(recurse=False):
        if buffer.dim():  # all but a count of batches
            setattr(module, name, _taken(buffer, 0, rows))


def _taken(value: Tensor, dim: int, mask: Mask) -> Tensor:
    """A copy of the entries in a dimension that a mask has; by position, which works on the meta device, too."""
    return value.index_select(dim, mask.nonzero().flatten().to(value.device))
