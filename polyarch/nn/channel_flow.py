"""What is known of the channels of a graph, and the smaller graph that is made of those that are left."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.errors import InvalidInput
from polyarch.nn.channel_gates import remove_gates
from polyarch.nn.channel_recording import Recording
from polyarch.nn.channel_selection import appended, select_channels, select_planes
from polyarch.nn.path_recording import place

Mask = Tensor
"""Which channels of a value, boolean (C,). A value that is not (B, C, ...) counts as one channel."""


class ChannelFlow:
    """A graph on its way to a smaller one.

    Args:
        model: the network; copies of its modules end up in the smaller one.
        recording: the network as a graph.
        keep: the name of every gate -> which channels it keeps, boolean (K,).

    Attributes:
        zero: the channels of every value that are zero for any input.
        read: those that somebody reads and that are not zero.
        made: what stands for a value in the new graph, and the channels that it has.
        graph: the new graph.
    """

    def __init__(self, model: nn.Module, recording: Recording, keep: Mapping[str, Tensor]) -> None:
        self.keep = keep
        self.values = recording.values
        self.macs = recording.macs
        self.zero: dict[fx.Node, Mask] = {}
        self.read: dict[fx.Node, Mask] = {}
        self.made: dict[fx.Node, tuple[fx.Node, Mask]] = {}
        self.graph = fx.Graph()
        self._model = model
        self._constants = recording.constants
        self._batched = recording.batched
        self._input = next(node for node in recording.network.graph.nodes if node.op == "placeholder")
        self._root = nn.Module().train(model.training)
        self._copied: dict[int, Any] = {}  # what is shared in the network is shared in the smaller one
        self._taken: dict[tuple[fx.Node, tuple[bool, ...]], fx.Node] = {}

    def network(self) -> nn.Module:
        """The new graph with its modules."""
        self.graph.lint()
        return fx.GraphModule(self._root, self.graph, class_name="Network")

    def shape(self, node: fx.Node) -> tuple[int, ...] | None:
        """Of a value with channels, (B, C, ...)."""
        value = self.values[node]
        return tuple(value.shape) if node in self._batched and value.dim() >= 2 else None

    def nothing(self, node: fx.Node) -> Mask:
        """No channel of a value."""
        shape = self.shape(node)
        return torch.zeros(1 if shape is None else shape[1], dtype=torch.bool)

    def everything(self, node: fx.Node) -> Mask:
        """All channels of a value."""
        return ~self.nothing(node)

    def own(self, node: fx.Node) -> Any:
        """A copy of the module, parameter or buffer of the network that a node stands for, without gates."""
        assert isinstance(node.target, str)
        known = self._constants.get(node.target)
        original = attrgetter(node.target)(self._model) if known is None else known
        try:
            value = copy.deepcopy(original, self._copied)
        except RuntimeError as error:  # e.g. a weight that hooks make of others, with its history
            reason = str(error).partition(".")[0]
            raise InvalidInput(
                f"Expected {node.target!r} to be something that can be copied. Got {type(original).__name__}: {reason}."
            ) from error
        if isinstance(value, nn.Module):
            remove_gates(value)
            if getattr(value, "inplace", False):  # the graph has no changes in place
                value.inplace = False  # type: ignore[assignment]
        return value

    def take(self, node: fx.Node, wanted: Mask | None = None) -> fx.Node:
        """The wanted channels of a value, or all, in the new graph; those that were not made are zero."""
        wanted = self.everything(node) if wanted is None else wanted
        new, has = self.made.get(node, (None, self.nothing(node)))
        if new is None or not has.any():
            return self.constant(node, int(wanted.sum()))
        if has.equal(wanted):
            return new
        key = (node, tuple(wanted.tolist()))
        if key not in self._taken:
            count = int(has.sum())
            index = torch.where(has, has.cumsum(0) - 1, count)[wanted]
            if (index == count).any():  # one more channel, of zeros
                new = self.graph.call_function(F.pad, (new, [0, 0] * (self.values[node].dim() - 2) + [0, 1]))
            indices = self.attribute(f"_taken_channels_{len(self._taken)}", index.to(self.values[node].device))
            select = select_channels if self.values[node].dim() == 4 else select_planes
            self._taken[key] = appended(self.graph, select, new, indices)
        return self._taken[key]

    def repeat(self, node: fx.Node, wanted: Mask | None = None) -> fx.Node:
        """The operation of a node on the wanted channels of its inputs, or on all, in the new graph."""
        if node.op in ("call_module", "get_attr"):
            self._place(node)
        return self.graph.node_copy(node, lambda source: self.take(source, wanted))

    def call(self, node: fx.Node, x: fx.Node) -> fx.Node:
        """The module of a node on another value of the new graph."""
        return self.graph.call_module(self._place(node), (x,))

    def _place(self, node: fx.Node) -> str:
        assert isinstance(node.target, str)
        place(self._root, node.target, self.own(node))
        return node.target

    def constant(self, node: fx.Node, channels: int, bias: nn.Parameter | None = None) -> fx.Node:
        """A value (B, channels, ...) that is zero, or the bias everywhere, in the new graph."""
        value = self.values[node]
        shape = (self.batch_size(), channels, *value.shape[2:])
        if bias is None:  # made of a buffer, which goes with the network to another device or precision
            zero = self.attribute(f"_zero_{str(value.dtype).rpartition('.')[2]}", value.new_zeros(()))
            return self.graph.call_method("new_zeros", (zero, shape))
        row = self.attribute(f"{node.target}.bias", bias)
        row = self.graph.call_method("view", (row, (1, channels, *[1] * (value.dim() - 2))))
        # not expanded: without gradients a view of a parameter looks like one, on which torch's flop counter fails
        return self.graph.call_method("repeat", (row, (shape[0], 1, *value.shape[2:])))

    def batch_size(self) -> fx.Node:
        """B, in the new graph."""
        return self.graph.call_method("size", (self.made[self._input][0], 0))

    def attribute(self, name: str, value: Tensor) -> fx.Node:
        """A parameter or buffer of the new graph."""
        place(self._root, name, value)
        return self.graph.get_attr(name)
