"""What is known about the channels of a graph, and the smaller graph built from the remaining ones."""

import copy
import operator
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
"""Selects channels of a value, boolean (C,). A value that is not (B, C, ...) counts as one channel."""


class ChannelFlow:
    """The analysis of a graph and the smaller graph under construction.

    Args:
        model: the network, whose modules are copied into the smaller one.
        recording: the network as a graph.
        keep: gate name -> which channels it keeps, boolean (K,).

    Attributes:
        zero: the channels of every value that are zero for any input.
        read: the channels of every value that are read and not zero.
        made: the node that represents a value in the new graph, and the channels that it has.
        graph: the new graph.
    """

    def __init__(self, model: nn.Module, recording: Recording, keep: Mapping[str, Tensor]) -> None:
        self.keep = keep
        self.values, self.macs = recording.values, recording.macs
        self.zero: dict[fx.Node, Mask] = {}
        self.read: dict[fx.Node, Mask] = {}
        self.made: dict[fx.Node, tuple[fx.Node, Mask]] = {}
        self.graph = fx.Graph()
        self._model, self._recording = model, recording
        self._input = next(node for node in recording.network.graph.nodes if node.op == "placeholder")
        self._named_inputs: fx.Node | None = None
        self._root = nn.Module().train(model.training)
        self._copied: dict[int, Any] = {}  # the smaller network shares the same modules
        self._taken: dict[tuple[fx.Node, tuple[bool, ...]], fx.Node] = {}

    def network(self) -> nn.Module:
        """The new graph with its modules."""
        self.graph.lint()
        return fx.GraphModule(self._root, self.graph, class_name="Network")

    def input(self, node: fx.Node) -> fx.Node:
        """An input of the new graph, whose ``forward`` takes one value: the tensor, or all named ones together.

        Arguments by name would need a hook, which graphs lose when they are copied.
        """
        if not self._recording.named:
            return self.graph.placeholder("x")
        if self._named_inputs is None:
            self._named_inputs = self.graph.placeholder("inputs")
        return self.graph.call_function(operator.getitem, (self._named_inputs, str(node.target)))

    def shape(self, node: fx.Node) -> tuple[int, ...] | None:
        """(B, C, ...) if the value has channels, otherwise None."""
        value = self.values[node]
        return tuple(value.shape) if node in self._recording.batched and value.dim() >= 2 else None

    def nothing(self, node: fx.Node) -> Mask:
        """No channel of a value."""
        shape = self.shape(node)
        return torch.zeros(1 if shape is None else shape[1], dtype=torch.bool)

    def everything(self, node: fx.Node) -> Mask:
        """All channels of a value."""
        return ~self.nothing(node)

    def own(self, node: fx.Node) -> Any:
        """Copies the module, parameter or buffer that a node refers to, without gates."""
        assert isinstance(node.target, str)
        known = self._recording.constants.get(node.target)
        original = attrgetter(node.target)(self._model) if known is None else known
        try:
            value = copy.deepcopy(original, self._copied)
        except RuntimeError as error:  # e.g. a weight that hooks compute from others, which has a gradient history
            reason = str(error).partition(".")[0]
            raise InvalidInput(
                f"Expected {node.target!r} to be copyable. Got {type(original).__name__}: {reason}."
            ) from error
        if isinstance(value, nn.Module):
            remove_gates(value)
            if getattr(value, "inplace", False):  # the graph has no changes in place
                value.inplace = False  # type: ignore[assignment]
        return value

    def take(self, node: fx.Node, wanted: Mask | None = None) -> fx.Node:
        """The wanted channels of a value in the new graph, by default all; channels that were not made are zero."""
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
            if (index == count).any():  # adds a channel of zeros
                new = self.graph.call_function(F.pad, (new, [0, 0] * (self.values[node].dim() - 2) + [0, 1]))
            indices = self.attribute(f"_taken_channels_{len(self._taken)}", index.to(self.values[node].device))
            select = select_channels if self.values[node].dim() == 4 else select_planes
            self._taken[key] = appended(self.graph, select, new, indices)
        return self._taken[key]

    def repeat(self, node: fx.Node, wanted: Mask | None = None) -> fx.Node:
        """Copies a node into the new graph, applied to the wanted channels of its inputs, by default all."""
        if node.op in ("call_module", "get_attr"):
            self._place(node)
        return self.graph.node_copy(node, lambda source: self.take(source, wanted))

    def call(self, node: fx.Node, x: fx.Node) -> fx.Node:
        """Applies the module of a node to another value of the new graph."""
        return self.graph.call_module(self._place(node), (x,))

    def _place(self, node: fx.Node) -> str:
        assert isinstance(node.target, str)
        place(self._root, node.target, self.own(node))
        return node.target

    def constant(self, node: fx.Node, channels: int, bias: nn.Parameter | None = None) -> fx.Node:
        """A constant (B, channels, ...) in the new graph: zero, or the bias in every place."""
        value = self.values[node]
        shape = (self.batch_size(), channels, *value.shape[2:])
        if bias is None:  # derived from a buffer, to follow the network to another device or precision
            zero = self.attribute(f"_zero_{str(value.dtype).rpartition('.')[2]}", value.new_zeros(()))
            return self.graph.call_method("new_zeros", (zero, shape))
        row = self.attribute(f"{node.target}.bias", bias)
        row = self.graph.call_method("view", (row, (1, channels, *[1] * (value.dim() - 2))))
        # Not expand: torch's flop counter fails on views of parameters, which without gradients look like parameters.
        return self.graph.call_method("repeat", (row, (shape[0], 1, *value.shape[2:])))

    def batch_size(self) -> fx.Node:
        """The batch size B in the new graph."""
        return self.graph.call_method("size", (self.made[self._input][0], 0))

    def attribute(self, name: str, value: Tensor) -> fx.Node:
        """Adds a parameter or buffer to the new graph."""
        place(self._root, name, value)
        return self.graph.get_attr(name)
