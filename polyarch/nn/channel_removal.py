"""Makes networks smaller by removing the channels that no layer reads.

The network is recorded as a ``torch.fx`` graph. Two passes determine for every value

    forwards    which channels are zero for any input: dropped ones, and those computed from zeros alone
    backwards   which channels are read: layers read no dropped channels, additions read no zeros

and only channels that are read and not zero remain. A layer keeps the rows of its kernel that are read and the columns
that it reads; if it reads fewer channels than its producer makes for others, it selects them by index. A layer without
inputs is replaced by its bias. One pass in each direction suffices because zeros do not depend on readers.

Unknown operations are assumed to read and make all channels: then the result is correct, if larger than necessary.
Pruning libraries remove a channel from its producer and all readers at once; here, different readers of a value may
drop different channels.
"""

import math
import operator
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.data.named_inputs import Inputs
from polyarch.nn.channel_flow import ChannelFlow
from polyarch.nn.channel_gates import gated, sliced
from polyarch.nn.channel_recording import Recording, recorded
from polyarch.nn.channel_rules import (
    NORMS,
    BatchSize,
    Channelwise,
    Concatenated,
    CutChannelwise,
    Flattened,
    Gated,
    Input,
    Layer,
    Masked,
    Opaque,
    Rule,
    Sum,
    depthwise,
)
from polyarch.nn.path_recording import NetworkCost

POOLED: dict[Any, int] = {
    **dict.fromkeys((nn.MaxPool1d, nn.AvgPool1d, nn.AdaptiveAvgPool1d, nn.AdaptiveMaxPool1d), 3),
    **dict.fromkeys((torch.max_pool1d, F.max_pool1d, F.avg_pool1d, F.adaptive_avg_pool1d), 3),
    **dict.fromkeys((nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d), 4),
    **dict.fromkeys((torch.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.max_pool2d), 4),
    **dict.fromkeys((nn.MaxPool3d, nn.AvgPool3d, nn.AdaptiveAvgPool3d, nn.AdaptiveMaxPool3d), 5),
}
"""Poolings and the number of dimensions of their inputs; with one less, torch takes the batch for channels."""

ZERO_TO_ZERO: frozenset[Any] = frozenset(
    [
        *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU),
        *(nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Tanh, nn.Softsign, nn.Upsample, *POOLED),
        *(torch.relu, torch.tanh, F.relu, F.relu6, F.leaky_relu, F.elu, F.selu, F.celu, F.gelu, F.silu, F.mish),
        *(F.hardswish, F.softsign, F.tanh, F.dropout, F.interpolate, "relu", "tanh", "contiguous"),
    ]
)
"""Modules, functions and methods that process each channel by itself and map zeros to zeros."""

OTHER_CHANNELWISE: frozenset[Any] = frozenset(
    [nn.Sigmoid, nn.Softplus, nn.Hardsigmoid, nn.LogSigmoid, torch.sigmoid, F.sigmoid, F.softplus, "sigmoid"]
)
"""Those that process each channel by itself but do not map zeros to zeros."""

ADDITIONS = frozenset([operator.add, torch.add, "add"])
DIFFERENCES = frozenset([operator.sub, torch.sub, "sub"])
PRODUCTS = frozenset([operator.mul, torch.mul, "mul"])
CONCATENATIONS = frozenset([torch.cat, torch.concat, torch.concatenate])
FLATTENINGS = frozenset([nn.Flatten, torch.flatten, "flatten"])
RESHAPINGS = frozenset(["view", "reshape"])
REDUCTIONS = frozenset([torch.mean, torch.sum, torch.amax, torch.squeeze, "mean", "sum", "amax", "squeeze"])
"""Functions and methods that remove dimensions and map zeros to zeros."""
PADDINGS: frozenset[Any] = frozenset(
    [nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d, nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d, F.pad]
)


class ChannelGraph:
    """A network with gates, recorded once, from which channels can be removed again and again.

    Every removal copies the current weights of the network, whose ``forward`` must not change.

    Args:
        model: a network with gates, see `polyarch.nn.channel_gates`; not modified.
        example: a batch of inputs, (B, ...).
    """

    def __init__(self, model: nn.Module, example: Inputs) -> None:
        self.model = model
        self.example = example

    def removed(self, keep: Mapping[str, Tensor]) -> nn.Module:
        """A plain module with its own weights that computes the same as the gated network with dropped channels.

        It does so in evaluation and training mode, except that branches of ``forward`` on the mode are recorded for
        evaluation. The constant that replaces a layer without inputs has the resolution it has for the example.

        Args:
            keep: gate name -> which channels it keeps, boolean (K,).
        """
        flow = self._flow(keep)
        for node in self._left(flow):
            flow.made[node] = self._rules[node].make(flow, node)
        return flow.network()

    def cost(self, keep: Mapping[str, Tensor]) -> NetworkCost:
        """The cost of the smaller network, computed without building it."""
        flow = self._flow(keep)
        sizes: dict[nn.Parameter, int] = {}
        macs = 0.0
        for node in self._left(flow):
            node_sizes, node_macs = self._rules[node].cost(flow, node)
            sizes |= node_sizes  # parameters that several nodes share count once
            macs += node_macs
        return NetworkCost(sum(sizes.values()), macs)

    def gate_macs(self) -> dict[str, float]:
        """Gate name -> multiply-accumulates per example of the operations that read through the gate."""
        found: dict[str, float] = {}
        for node in self._recording.network.graph.nodes:
            if node.target is gated:
                name = str(node.args[1])
                found[name] = found.get(name, 0.0) + sum(self._recording.macs[user] for user in node.users)
        return found

    def _flow(self, keep: Mapping[str, Tensor]) -> ChannelFlow:
        """Determines which channels are zero, from input to output, and which are read, from output to input."""
        flow = ChannelFlow(self.model, self._recording, {name: kept.cpu().bool() for name, kept in keep.items()})
        nodes = list(self._rules)
        for node in nodes:
            flow.zero[node] = self._rules[node].zero(flow, node)
            flow.read[node] = flow.nothing(node)
        for node in reversed(nodes):
            if flow.read[node].any() or node.op == "output":
                for source, wanted in self._rules[node].reads(flow, node):
                    flow.read[source] |= wanted & ~flow.zero[source]
        return flow

    def _left(self, flow: ChannelFlow) -> list[fx.Node]:
        return [node for node, read in flow.read.items() if read.any() or node.op in ("output", "placeholder")]

    @cached_property
    def _recording(self) -> Recording:
        return recorded(self.model, self.example)

    @cached_property
    def _rules(self) -> dict[fx.Node, Rule]:
        flow = ChannelFlow(self.model, self._recording, {})
        cuttable = _cuttable(self._recording.network)
        return {
            node: _rule(flow, node, self._recording.network, cuttable) for node in self._recording.network.graph.nodes
        }


def _rule(flow: ChannelFlow, node: fx.Node, network: fx.GraphModule, cuttable: set[str]) -> Rule:
    """The rule for an operation; `Opaque` if it is unknown."""
    shape, sources = flow.shape(node), node.all_input_nodes
    if node.op == "placeholder":
        return Input()
    if node.target is gated:
        _, name, dim = node.args
        assert isinstance(name, str) and isinstance(dim, int)
        elsewhere = shape is None or dim not in (1, 1 - len(shape))
        return Masked(name, dim) if elsewhere else Gated(name)
    first = flow.shape(sources[0]) if sources else None
    if node.target == "size" and node.args[1:] == (0,) and first is not None:
        return BatchSize()
    if shape is None or first is None:
        return Opaque(_parameters(network, node))
    if node.op == "call_module":
        assert isinstance(node.target, str)
        module = network.get_submodule(node.target)
        if node.target in cuttable and sliced(module) and len(first) == module.get_parameter("weight").dim():
            return Layer(module)
        slopes = module.num_parameters if isinstance(module, nn.PReLU) else 0
        if node.target in cuttable and (isinstance(module, NORMS) or depthwise(module) or slopes > 1):
            return CutChannelwise(module)
        if slopes == 1:
            return Channelwise("all", module.parameters())
        kind: Any = type(module)
    else:
        kind = node.target
    numbers = [value for value in node.args if isinstance(value, int | float)]
    alone = len(sources) == 1 and first[1] == shape[1] and len(first) >= POOLED.get(kind, 2)
    if kind in ZERO_TO_ZERO | OTHER_CHANNELWISE and alone:
        return Channelwise("all" if kind in ZERO_TO_ZERO else "never")
    scaled = kind in PRODUCTS or (kind is operator.truediv and node.args[0] is sources[0])
    if (
        (kind in PADDINGS and len(sources) == 1 and _pads_zeros_in_space(network, node, len(first)))
        or (kind in REDUCTIONS and _reduced(node, len(first)) <= set(range(2, len(first))))
        or (kind in FLATTENINGS and shape[:2] == first[:2])  # flattens only dimensions behind the channels
        or (scaled and len(sources) == 1 and len(numbers) == 1)
    ):
        return Channelwise("all")
    if kind in FLATTENINGS | RESHAPINGS and len(shape) == 2 and shape[1] == math.prod(first[1:]):
        return Flattened(math.prod(first[2:]))
    alike = all(flow.shape(source) == shape for source in sources)
    if kind in ADDITIONS and alike and not any(numbers) and not node.kwargs:
        return Sum()
    shapes = [flow.shape(source) or () for source in sources]
    same_rank = all(len(other) == len(shape) for other in shapes)
    same_channels = same_rank and all(other[1] == shape[1] for other in shapes)  # pixels may be broadcast
    if kind in PRODUCTS | DIFFERENCES and len(sources) == 2 and same_channels and not node.kwargs:
        return Channelwise("any" if kind in PRODUCTS else "all")
    if kind in CONCATENATIONS and same_rank and _dimension(node) % len(shape) == 1:
        return Concatenated()
    return Opaque(_parameters(network, node))


def _parameters(network: fx.GraphModule, node: fx.Node) -> list[nn.Parameter]:
    """The parameters of the module or attribute that a node names."""
    if node.op not in ("call_module", "get_attr"):
        return []
    assert isinstance(node.target, str)
    found = attrgetter(node.target)(network)
    return list(found.parameters()) if isinstance(found, nn.Module) else [found] * isinstance(found, nn.Parameter)


def _cuttable(network: fx.GraphModule) -> set[str]:
    """The layers that may be cut: called by a single node, without hooks, with weights that nothing else uses."""
    nodes = network.graph.nodes
    calls = Counter(node.target for node in nodes if node.op == "call_module")
    owners = {node.target.rpartition(".")[0] for node in nodes if node.op == "get_attr"}
    places = Counter(id(parameter) for _, parameter in network.named_parameters(remove_duplicate=False))

    def may(target: str) -> bool:
        module = network.get_submodule(target)
        plain = type(module).__module__.startswith("torch.nn.modules.")
        hooked = module._forward_pre_hooks or module._forward_hooks
        return plain and not hooked and all(places[id(parameter)] == 1 for parameter in module.parameters())

    return {target for target, count in calls.items() if count == 1 and target not in owners and may(target)}


def _reduced(node: fx.Node, dims: int) -> set[int]:
    """The dimensions that a mean or sum removes; all of them if they are not constants."""
    given: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    given = [given] if isinstance(given, int) else given
    if not isinstance(given, tuple | list) or not all(isinstance(dim, int) for dim in given):
        return set(range(dims))
    return {dim % dims for dim in given}


def _pads_zeros_in_space(network: fx.GraphModule, node: fx.Node, dims: int) -> bool:
    """Whether a padding or crop (a negative padding) adds only zeros and does not touch channels."""
    if node.op == "call_module":
        module: Any = network.get_submodule(str(node.target))
        padding, value = module.padding, module.value
    else:
        given: Any = dict(zip(("input", "pad", "mode", "value"), node.args, strict=False)) | node.kwargs
        padding, value = given["pad"], given.get("value")
    return not value and len(padding) <= 2 * (dims - 2)


def _dimension(node: fx.Node) -> int:
    """The dimension along which values are concatenated."""
    dim: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
    return int(dim)
