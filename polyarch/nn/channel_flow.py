"""What is known about the channels of a graph, and the smaller graph built from the remaining ones."""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.errors import InvalidInput
from polyarch.nn.channel_gates import remove_gates
from polyarch.nn.channel_recording import Recording
from polyarch.nn.channel_selection import appended, select_channels, select_planes
from polyarch.nn.path_recording import place

if TYPE_CHECKING:
    from polyarch.nn.channel_rules import Rule

Mask = Tensor
"""Selects channels of a value, boolean (C,). A value without rows of the batch counts as one channel."""


class ChannelFlow:
    """The analysis of a graph and the smaller graph under construction.

    Args:
        model: the network, whose modules are copied into the smaller one.
        recording: the network as a graph.
        axes: the dimension of the channels of every value: 1, or the last for what linear layers make of sequences.
        rules: how every node treats channels.
        keep: gate name -> which channels it keeps, boolean (K,).

    Attributes:
        zero: the channels of every value that are zero for any input.
        fixed: the channels that are constants, the same for any input and at every pixel; zeros are among them.
        read: the channels of every value that are read and not fixed.
        wanted: the channels of every value that are read, fixed and not zero: constants to be stored.
        made: the node that represents a value in the new graph, and the channels that it has.
        graph: the new graph.
    """

    def __init__(
        self,
        model: nn.Module,
        recording: Recording,
        axes: Mapping[fx.Node, int],
        rules: Mapping[fx.Node, Rule],
        keep: Mapping[str, Tensor],
    ) -> None:
        self.keep = keep
        self.values, self.macs = recording.values, recording.macs
        self.zero: dict[fx.Node, Mask] = {}
        self.fixed: dict[fx.Node, Mask] = {}
        self.read: dict[fx.Node, Mask] = {}
        self.wanted: dict[fx.Node, Mask] = {}
        self.made: dict[fx.Node, tuple[fx.Node, Mask]] = {}
        self.graph = fx.Graph()
        self._model, self._recording, self._axes, self._rules = model, recording, axes, rules
        self._input = next(node for node in recording.network.graph.nodes if node.op == "placeholder")
        self._named_inputs: fx.Node | None = None
        self._root = nn.Module().train(model.training)
        self._copied: dict[int, Any] = {}  # the smaller network shares the same modules
        self._taken: dict[tuple[fx.Node, tuple[bool, ...]], fx.Node] = {}
        self._carriers: dict[fx.Node, fx.Node] = {}
        self._levels: dict[fx.Node, Tensor] = {}
        self._stored: dict[fx.Node, fx.Node] = {}
        self._selections = 0

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

    def axis(self, node: fx.Node) -> int:
        """The dimension of a value that its channels are in."""
        return self._axes.get(node, 1)

    def shape(self, node: fx.Node) -> tuple[int, ...] | None:
        """(B, C, ...), wherever the channels are, if the value has a row per row of the batch; otherwise None."""
        value = self.values[node]
        if node not in self._recording.batched or value.dim() < 2:
            return None
        sizes = list(value.shape)
        channels = sizes.pop(self.axis(node))
        return sizes[0], channels, *sizes[1:]

    def nothing(self, node: fx.Node) -> Mask:
        """No channel of a value."""
        shape = self.shape(node)
        return torch.zeros(1 if shape is None else shape[1], dtype=torch.bool)

    def everything(self, node: fx.Node) -> Mask:
        """All channels of a value."""
        return ~self.nothing(node)

    def constants(self, node: fx.Node) -> Mask:
        """The fixed channels of a value that are not zero."""
        return self.fixed[node] & ~self.zero[node]

    def level(self, node: fx.Node) -> Tensor:
        """The numbers in the fixed channels of a value under the current weights in evaluation mode, (C,)."""
        if node not in self._levels:
            with torch.no_grad():
                found = self._rules[node].level(self, node)
            self._levels[node] = found * self.constants(node).to(found.device)
        return self._levels[node]

    def blank(self, node: fx.Node) -> Tensor:
        """Zeros for the channels of a value, (C,), on the device and in the precision of the network."""
        like = next(self._model.parameters(), self.values[node])
        return torch.zeros(len(self.nothing(node)), dtype=like.dtype, device=like.device)

    def current(self, node: fx.Node) -> Any:
        """The module, parameter or buffer that a node refers to, with its current numbers."""
        assert isinstance(node.target, str)
        known = self._recording.constants.get(node.target)
        return attrgetter(node.target)(self._model) if known is None else known

    def own(self, node: fx.Node) -> Any:
        """Copies the module, parameter or buffer that a node refers to, without gates."""
        original = self.current(node)
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
        """The wanted channels of a value in the new graph, by default all; fixed channels get their constants."""
        if wanted is None or self.shape(node) is None:
            wanted = self.everything(node)
        new, has = self.made.get(node, (None, self.nothing(node)))
        if new is not None and has.equal(wanted):
            return new
        key = (node, tuple(wanted.tolist()))
        if key not in self._taken:
            self._taken[key] = self._filled(node, wanted)
        return self._taken[key]

    def _filled(self, node: fx.Node, wanted: Mask) -> fx.Node:
        new, has = self.made.get(node, (None, self.nothing(node)))
        constants = wanted & self.constants(node)
        if new is None or not (has & wanted).any():
            new = self.carrier(node)
            if not constants.any():
                sizes = [-1] * self.values[node].dim()
                sizes[self.axis(node)] = int(wanted.sum())
                return self.graph.call_method("expand", (new, *sizes))
        else:
            new = self._picked(node, new, has, wanted)
        return self.graph.call_function(operator.add, (new, self.stored(node, wanted))) if constants.any() else new

    def _picked(self, node: fx.Node, new: fx.Node, has: Mask, wanted: Mask) -> fx.Node:
        """The wanted channels of a node that has some of them; the others are zero."""
        if has.equal(wanted):
            return new
        index = _places(has, wanted)
        if (index == int(has.sum())).any():  # adds a channel of zeros
            behind = self.values[node].dim() - 1 - self.axis(node)
            new = self.graph.call_function(F.pad, (new, [0, 0] * behind + [0, 1]))
        return self.select(node, new, index)

    def select(self, node: fx.Node, new: fx.Node, index: Tensor) -> fx.Node:
        """Channels of a value in the new graph by position, in any order."""
        value, axis = self.values[node], self.axis(node)
        indices = self._indices(index.to(value.device))
        if axis != 1:
            return self.graph.call_function(torch.index_select, (new, axis, indices))
        return appended(self.graph, select_channels if value.dim() == 4 else select_planes, new, indices)

    def stored(self, node: fx.Node, wanted: Mask) -> fx.Node:
        """The constants of a value as a parameter of the new graph, shaped to be added to the wanted channels."""
        if node not in self._stored:
            level, held = self.level(node), self.wanted[node].nonzero().flatten()  # masks fail on the meta device
            numbers = level.index_select(0, held.to(level.device))
            self._stored[node] = self.attribute(f"_level_{node.name}", nn.Parameter(numbers))
        new, held = self._stored[node], self.wanted[node]
        if not held.equal(wanted):
            index = _places(held, wanted)
            if (index == int(held.sum())).any():
                new = self.graph.call_function(F.pad, (new, [0, 1]))
            indices = self._indices(index.to(self.values[node].device))
            new = self.graph.call_function(torch.index_select, (new, 0, indices))
        form = [1] * self.values[node].dim()
        form[self.axis(node)] = -1
        return self.graph.call_method("view", (new, tuple(form)))

    def _indices(self, index: Tensor) -> fx.Node:
        self._selections += 1
        return self.attribute(f"_taken_channels_{self._selections - 1}", index)

    def carrier(self, node: fx.Node) -> fx.Node:
        """Zeros (B, 1, ...) in the new graph at the resolution of a value, whatever the size of the image."""
        if node not in self._carriers:
            if node in self.made:
                first = self.graph.call_function(torch.narrow, (self.made[node][0], self.axis(node), 0, 1))
                self._carriers[node] = self.graph.call_function(torch.zeros_like, (first,))
            else:
                self._carriers[node] = self._rules[node].carrier(self, node)
        return self._carriers[node]

    def zeros(self, node: fx.Node) -> fx.Node:
        """Zeros (B, 1, ...) at the resolution that a value has for the example."""
        value, shape = self.values[node], self.shape(node)
        assert shape is not None
        sizes: list[Any] = [self.batch_size(), *shape[2:]]
        sizes.insert(self.axis(node), 1)
        # Derived from a buffer, to follow the network to another device or precision.
        zero = self.attribute(f"_zero_{str(value.dtype).rpartition('.')[2]}", value.new_zeros(()))
        return self.graph.call_method("new_zeros", (zero, tuple(sizes)))

    def repeat(self, node: fx.Node, wanted: Mask | None = None) -> fx.Node:
        """Copies a node into the new graph, applied to the wanted channels of its inputs, by default all."""
        if node.op in ("call_module", "get_attr"):
            self.place(node)
        return self.graph.node_copy(node, lambda source: self.take(source, wanted))

    def repeat_on_carrier(self, node: fx.Node) -> fx.Node:
        """Applies an operation without parameters to one channel of zeros at the resolution of its inputs."""
        if node.op == "call_module":
            self.place(node)

        def given(source: fx.Node) -> fx.Node:
            return self.take(source) if self.shape(source) is None else self.carrier(source)

        return self.graph.node_copy(node, given)

    def call(self, node: fx.Node, x: fx.Node) -> fx.Node:
        """Applies the module of a node to another value of the new graph."""
        return self.graph.call_module(self.place(node), (x,))

    def place(self, node: fx.Node, module: nn.Module | None = None, suffix: str = "") -> str:
        """Puts a module, by default a copy of the node's own, into the new network under the node's name."""
        assert isinstance(node.target, str)
        name = f"{node.target}{suffix}"
        place(self._root, name, self.own(node) if module is None else module)
        return name

    def batch_size(self) -> fx.Node:
        """The batch size B in the new graph."""
        return self.graph.call_method("size", (self.made[self._input][0], 0))

    def attribute(self, name: str, value: Tensor) -> fx.Node:
        """Adds a parameter or buffer to the new graph."""
        place(self._root, name, value)
        return self.graph.get_attr(name)


def _places(has: Mask, wanted: Mask) -> Tensor:
    """Where among the channels that a value has the wanted ones are; those that it lacks are at the end."""
    return torch.where(has, has.cumsum(0) - 1, int(has.sum()))[wanted]
