"""Networks made smaller for real: without the channels that no layer reads.

The network is written down as a ``torch.fx`` graph. Then, for every value in it,

    forwards    which channels are zero, whatever the input: dropped ones, and what is made of zeros alone
    backwards   which channels somebody reads: a layer reads no dropped slice, an addition nothing that is zero

and only what is read and not zero is made. A layer keeps the rows of its kernel that are read and the columns that it
reads; where it reads less than its producer makes for others, it takes its channels by index. A layer without any input
is left out, and its bias stands for it. One pass in each direction is enough: zeros do not depend on readers.

What the analysis does not know reads and makes all channels, so that the result is right, if not as small as it could
be. Libraries for pruning remove a channel from a producer together with all of its readers. Here readers differ, which
they leave to the caller.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.nn.channel_flow import ChannelFlow
from polyarch.nn.channel_recording import recorded
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
from polyarch.nn.gated import gated, sliced

ZERO_TO_ZERO: frozenset[Any] = frozenset(
    [
        *(nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU),
        *(nn.GELU, nn.SiLU, nn.Hardswish, nn.Tanh, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d),
        *(nn.AvgPool2d, nn.AvgPool3d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d),
        *(torch.relu, torch.tanh, torch.max_pool2d, F.relu, F.relu6, F.leaky_relu, F.elu, F.gelu, F.silu, F.hardswish),
        *(F.tanh, F.dropout, F.avg_pool2d, F.adaptive_avg_pool2d, F.max_pool2d, "relu", "tanh", "contiguous"),
    ]
)
"""Modules, functions and methods that treat every channel alike and by itself, and that map zeros to zeros."""

OTHER_CHANNELWISE: frozenset[Any] = frozenset(
    [nn.Sigmoid, nn.Softplus, nn.Hardsigmoid, nn.LogSigmoid, torch.sigmoid, F.sigmoid, F.softplus, "sigmoid"]
)
"""Those that map zeros to something else."""

ADDITIONS = frozenset([operator.add, torch.add, "add"])
PRODUCTS = frozenset([operator.mul, torch.mul, "mul"])
FLATTENINGS = frozenset([nn.Flatten, torch.flatten, "flatten", "view", "reshape"])
MEANS = frozenset([torch.mean, "mean"])


def remove_channels(model: nn.Module, example: Tensor, keep: Mapping[str, Tensor]) -> nn.Module:
    """A plain module with own weights that computes what the gated network computes with all dropped channels zero.

    It does so in evaluation and in training mode; what the code of ``forward`` itself makes of the mode is written down
    as it is in evaluation mode. Where a layer was left without any input, its constant has the size, in pixels, that it
    has for the example.

    Args:
        model: a network with gates, see `polyarch.nn.gated`. Left as it is.
        example: a batch that goes into it, (B, ...).
        keep: the name of every gate -> which channels it keeps, boolean (K,).
    """
    network, values = recorded(model, example)
    flow = ChannelFlow(network, values)
    nodes = list(network.graph.nodes)
    cuttable = _cuttable(network)
    rules = {node: _rule(flow, node, keep, cuttable) for node in nodes}
    for node in nodes:
        flow.zero[node] = rules[node].zero(flow, node)
        flow.read[node] = flow.nothing(node)
    for node in reversed(nodes):
        if flow.read[node].any() or node.op == "output":
            for source, wanted in rules[node].reads(flow, node):
                flow.read[source] |= wanted & ~flow.zero[source]
    for node in nodes:
        if flow.read[node].any() or node.op in ("output", "placeholder"):
            flow.made[node] = rules[node].make(flow, node)
    return flow.network()


def _rule(flow: ChannelFlow, node: fx.Node, keep: Mapping[str, Tensor], cuttable: set[str]) -> Rule:
    """What is known of an operation."""
    shape, sources = flow.shape(node), node.all_input_nodes
    if node.op == "placeholder":
        return Input()
    if node.target is gated:
        _, name, dim = node.args
        assert isinstance(name, str)
        plain = shape is None or dim not in (1, 1 - len(shape))
        return Masked(keep[name]) if plain else Gated(keep[name])
    first = flow.shape(sources[0]) if sources else None
    if node.target == "size" and node.args[1:] == (0,) and first is not None:
        return BatchSize()
    if shape is None or first is None:
        return Opaque()
    if node.op == "call_module":
        assert isinstance(node.target, str)
        module = flow.old.get_submodule(node.target)
        if node.target in cuttable and sliced(module) and len(first) == module.get_parameter("weight").dim():
            return Layer(module)
        if node.target in cuttable and (isinstance(module, NORMS) or depthwise(module)):
            return CutChannelwise(module)
        kind: Any = type(module)
    else:
        kind = node.target
    numbers = [value for value in node.args if isinstance(value, int | float)]
    if kind in ZERO_TO_ZERO | OTHER_CHANNELWISE and len(sources) == 1 and first[1] == shape[1]:
        return Channelwise(zero_to_zero=kind in ZERO_TO_ZERO)
    if kind in MEANS and _averaged(node, len(first)) <= set(range(2, len(first))):
        return Channelwise(zero_to_zero=True)
    scaled = kind in PRODUCTS or (kind is operator.truediv and node.args[0] is sources[0])
    if scaled and len(sources) == 1 and len(numbers) == 1:
        return Channelwise(zero_to_zero=True)
    if kind in FLATTENINGS and len(shape) == 2 and shape[1] == math.prod(first[1:]):
        return Flattened(math.prod(first[2:]))
    alike = all(flow.shape(source) == shape for source in sources)
    if kind in ADDITIONS and alike and not any(numbers) and not node.kwargs:
        return Sum()
    side_by_side = all((other := flow.shape(s)) and len(other) == len(shape) for s in sources)
    if kind is torch.cat and side_by_side and _dimension(node) % len(shape) == 1:
        return Concatenated()
    return Opaque()


def _cuttable(network: fx.GraphModule) -> set[str]:
    """The layers that may be cut: called by one node, nothing else uses their weights, and nothing hangs on them."""
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


def _averaged(node: fx.Node, dims: int) -> set[int]:
    """The dimensions that a mean is over."""
    given: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    given = range(dims) if given is None else given
    return {dim % dims for dim in ([given] if isinstance(given, int) else given)}


def _dimension(node: fx.Node) -> int:
    """The dimension of a concatenation."""
    dim: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
    return int(dim)
