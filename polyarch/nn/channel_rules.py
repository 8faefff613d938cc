"""How operations treat channels: which outputs are zero or fixed, which inputs they read, and what remains of them."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn

from polyarch.nn.channel_flow import ChannelFlow, Mask

Reads = Iterable[tuple[fx.Node, Mask]]


class Rule(ABC):
    """How an operation with some parameters treats channels; by default no output is fixed and no input is read."""

    def __init__(self, parameters: Iterable[nn.Parameter] = ()) -> None:
        self.parameters = tuple(parameters)

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The output channels that are zero for any input."""
        return flow.nothing(node)

    def fixed(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The output channels that are constants, besides those that are zero."""
        return flow.nothing(node)

    def level(self, flow: ChannelFlow, node: fx.Node) -> Tensor:
        """The constants in the fixed output channels, (C,)."""
        return flow.blank(node)

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The input channels that the output channels in ``flow.read`` depend on."""
        return ()

    def origins(self, flow: ChannelFlow, node: fx.Node, known: Mapping[fx.Node, Tensor]) -> list[Tensor]:
        """The numbers of the channels that the output channels come from, (C,) for every input that is combined.

        Empty if the operation makes new channels. Args: ``known`` has the numbers of the inputs' channels.
        """
        return []

    @abstractmethod
    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Adds the operation on the remaining channels to the new graph; returns its node and output channels."""

    def carrier(self, flow: ChannelFlow, node: fx.Node) -> fx.Node:
        """Zeros at the resolution of the output; see `ChannelFlow.carrier`.

        By default that of an input of the same resolution; without one, the resolution for the example.
        """
        shape = flow.shape(node)
        assert shape is not None
        for source in node.all_input_nodes:
            other = flow.shape(source)
            if len(shape) > 2 and other is not None and other[2:] == shape[2:] and flow.axis(source) == flow.axis(node):
                return flow.carrier(source)
        return flow.zeros(node)

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


class Resolution(Rule):
    """Sizes of a value other than the batch size and the number of channels, which need none of its channels.

    Args:
        origin: the value.
        place: the dimension, or a slice of dimensions.
    """

    def __init__(self, origin: fx.Node, place: int | slice) -> None:
        super().__init__()
        self.origin = origin
        self.place = place

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Reads the sizes off zeros of the same resolution."""
        shape = flow.graph.call_function(getattr, (flow.carrier(self.origin), "shape"))
        return flow.graph.call_function(operator.getitem, (shape, self.place)), flow.everything(node)


class Opaque(Rule):
    """An unknown operation, assumed to read and make all channels."""

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """All channels of all inputs."""
        return [(source, flow.everything(source)) for source in node.all_input_nodes]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Copies the operation unchanged."""
        return flow.repeat(node), flow.everything(node)


class Masked(Opaque):
    """A gate on a value whose first dimension is not the batch: dropped channels stay as zeros."""

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
        constants: what becomes of constants: another one, ``computed`` pixel by pixel; the ``same``, in another
            resolution; or something that varies, as at a border or by chance (``none``).
        parameters: weights that all channels share.
    """

    def __init__(
        self,
        zeros: Literal["all", "any", "never"],
        constants: Literal["computed", "same", "none"] = "computed",
        parameters: Iterable[nn.Parameter] = (),
    ) -> None:
        super().__init__(parameters)
        self.zeros = zeros
        self.constants = constants

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The channels in which all inputs, or any, are zero."""
        if self.zeros == "never":
            return flow.nothing(node)
        zeros = torch.stack([flow.zero[source] for source in _values(flow, node)])
        return zeros.all(0) if self.zeros == "all" else zeros.any(0)

    def fixed(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The channels in which all inputs are fixed."""
        if self.constants == "none":
            return flow.nothing(node)
        return torch.stack([flow.fixed[source] for source in _values(flow, node)]).all(0)

    def level(self, flow: ChannelFlow, node: fx.Node) -> Tensor:
        """The operation on one pixel of constants."""
        sources = _values(flow, node)
        if self.constants == "same":
            return flow.level(sources[0])
        dims = flow.values[node].dim()

        def pixel(source: fx.Node) -> Tensor:
            form = [1] * dims
            form[flow.axis(node)] = -1
            return flow.level(source).clone().view(form)

        args: Any = fx.map_arg(node.args, pixel)
        kwargs: Any = fx.map_arg(node.kwargs, pixel)
        if node.op == "call_module":
            found = flow.current(node)(*args, **kwargs)
        elif node.op == "call_method":
            found = getattr(args[0], str(node.target))(*args[1:], **kwargs)
        else:
            target: Any = node.target
            found = target(*args, **kwargs)
        flat: Tensor = found.flatten()
        return flat

    def origins(self, flow: ChannelFlow, node: fx.Node, known: Mapping[fx.Node, Tensor]) -> list[Tensor]:
        """The channels of every input."""
        return [known[source] for source in _values(flow, node)]

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The same channels of every input."""
        return [
            (source, flow.everything(source) if flow.shape(source) is None else flow.read[node])
            for source in node.all_input_nodes
        ]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Applies the operation to the channels that are read."""
        return flow.repeat(node, flow.read[node]), flow.read[node]

    def carrier(self, flow: ChannelFlow, node: fx.Node) -> fx.Node:
        """That of an input, or what the operation makes of it if it changes the resolution."""
        return super().carrier(flow, node) if self.constants == "computed" else flow.repeat_on_carrier(node)

    def cost(self, flow: ChannelFlow, node: fx.Node) -> tuple[dict[nn.Parameter, int], float]:
        """All shared parameters; multiply-accumulates in proportion to the channels."""
        sizes, macs = super().cost(flow, node)
        return sizes, macs * share(flow.read[node])


class Gated(Channelwise):
    """A gate, which makes dropped channels zero."""

    def __init__(self, name: str) -> None:
        super().__init__("all")
        self.name = name

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The dropped channels, and the zero channels of the input."""
        return ~flow.keep[self.name] | (super().zero(flow, node) if self._aligned(flow, node) else flow.nothing(node))

    def fixed(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The fixed channels of the input."""
        return super().fixed(flow, node) if self._aligned(flow, node) else flow.nothing(node)

    def level(self, flow: ChannelFlow, node: fx.Node) -> Tensor:
        """The constants of the input."""
        return flow.level(node.all_input_nodes[0]) if self._aligned(flow, node) else flow.blank(node)

    def origins(self, flow: ChannelFlow, node: fx.Node, known: Mapping[fx.Node, Tensor]) -> list[Tensor]:
        """The channels of the input, unless they are in another dimension."""
        return super().origins(flow, node, known) if self._aligned(flow, node) else []

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The same channels of the input; all if its channels are in another dimension."""
        return super().reads(flow, node) if self._aligned(flow, node) else Opaque.reads(self, flow, node)  # type: ignore[arg-type]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Takes the input's channels that are read, without a gate."""
        (source,), read = node.all_input_nodes, flow.read[node]
        if self._aligned(flow, node):
            return flow.take(source, read), read
        new = flow.take(source)
        return (new if read.all() else flow.select(node, new, read.nonzero().flatten())), read

    @staticmethod
    def _aligned(flow: ChannelFlow, node: fx.Node) -> bool:
        return flow.axis(node.all_input_nodes[0]) == flow.axis(node)


class Flattened(Rule):
    """Flattens (B, C, ...) to (B, C * size)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """All features of the channels that are zero."""
        return flow.zero[node.all_input_nodes[0]].repeat_interleave(self.size)

    def fixed(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """All features of the channels that are fixed."""
        return flow.fixed[node.all_input_nodes[0]].repeat_interleave(self.size)

    def level(self, flow: ChannelFlow, node: fx.Node) -> Tensor:
        """The constant of a channel in each of its features."""
        return flow.level(node.all_input_nodes[0]).repeat_interleave(self.size)

    def origins(self, flow: ChannelFlow, node: fx.Node, known: Mapping[fx.Node, Tensor]) -> list[Tensor]:
        """The channel of every feature."""
        return [known[node.all_input_nodes[0]].repeat_interleave(self.size)]

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

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The channels that are read, of every term that is not zero in them."""
        return [(term, flow.read[node]) for term in _values(flow, node)]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Adds up the terms that are not zero; a term that is constant has a single pixel."""
        read = flow.read[node]
        terms = [term for term in node.args if isinstance(term, fx.Node) and (read & ~flow.zero[term]).any()]
        terms.sort(key=lambda term: bool((read & ~flow.fixed[term]).any()), reverse=True)
        parts = [
            flow.take(term, read) if (read & ~flow.fixed[term]).any() else flow.stored(term, read) for term in terms
        ]
        return reduce(lambda total, part: flow.graph.call_function(operator.add, (total, part)), parts), read


class Concatenated(Rule):
    """A concatenation of values along their channels."""

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The zero channels of all parts, concatenated."""
        return torch.cat([flow.zero[part] for part in self._parts(node)])

    def fixed(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The fixed channels of all parts, concatenated."""
        return torch.cat([flow.fixed[part] for part in self._parts(node)])

    def level(self, flow: ChannelFlow, node: fx.Node) -> Tensor:
        """The constants of all parts, concatenated."""
        return torch.cat([flow.level(part) for part in self._parts(node)])

    def origins(self, flow: ChannelFlow, node: fx.Node, known: Mapping[fx.Node, Tensor]) -> list[Tensor]:
        """The channels of all parts, concatenated."""
        return [torch.cat([known[part] for part in self._parts(node)])]

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The channels that each part contributes to those that are read."""
        parts = self._parts(node)
        return zip(parts, flow.read[node].split([len(flow.zero[part]) for part in parts]), strict=True)

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Concatenates the parts of which at least one channel is read."""
        parts = [flow.take(part, read) for part, read in self.reads(flow, node) if read.any()]
        new = parts[0] if len(parts) == 1 else flow.graph.call_function(torch.cat, (parts, flow.axis(node)))
        return new, flow.read[node]

    @staticmethod
    def _parts(node: fx.Node) -> list[fx.Node]:
        parts: Any = node.args[0] if node.args else node.kwargs["tensors"]
        return list(parts)


class Picked(Rule):
    """Channels of a value by position: a part of it, or a shuffle, which may take several operations.

    Args:
        origin: the value.
        index: the position of every output channel in it, (C,).
    """

    def __init__(self, origin: fx.Node, index: Tensor) -> None:
        super().__init__()
        self.origin = origin
        self.index = index

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The picked channels that are zero."""
        return flow.zero[self.origin][self.index]

    def fixed(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The picked channels that are fixed."""
        return flow.fixed[self.origin][self.index]

    def level(self, flow: ChannelFlow, node: fx.Node) -> Tensor:
        """The picked constants."""
        return flow.level(self.origin)[self.index.to(flow.level(self.origin).device)]

    def origins(self, flow: ChannelFlow, node: fx.Node, known: Mapping[fx.Node, Tensor]) -> list[Tensor]:
        """The picked channels."""
        return [known[self.origin][self.index]]

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The picked channels that are read."""
        found = flow.nothing(self.origin)
        found[self.index[flow.read[node]]] = True
        return [(self.origin, found)]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Takes the channels that are read, in their new order."""
        ((source, taken),) = self.reads(flow, node)
        new, order = flow.take(source, taken), (taken.cumsum(0) - 1)[self.index[flow.read[node]]]
        in_order = order.equal(torch.arange(len(order)))
        return (new if in_order else flow.select(node, new, order)), flow.read[node]

    def carrier(self, flow: ChannelFlow, node: fx.Node) -> fx.Node:
        """That of the value."""
        return flow.carrier(self.origin)


def share(mask: Mask) -> float:
    """The share of channels that a mask selects."""
    return float(mask.sum()) / len(mask)


def _values(flow: ChannelFlow, node: fx.Node) -> list[fx.Node]:
    """The inputs of a node that have channels."""
    return [source for source in node.all_input_nodes if flow.shape(source) is not None]
