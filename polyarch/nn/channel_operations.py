"""Which rule applies to an operation of a graph, and in which dimension values have their channels."""

import math
import operator
from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.nn.channel_flow import ChannelFlow
from polyarch.nn.channel_gates import TRANSPOSED, depthwise, gated, sliced
from polyarch.nn.channel_layers import NORMS, CutChannelwise, GroupedLayer, GroupNormalised, Layer
from polyarch.nn.channel_recording import Recording
from polyarch.nn.channel_rules import (
    BatchSize,
    Channelwise,
    Concatenated,
    Flattened,
    Gated,
    Input,
    Masked,
    Opaque,
    Picked,
    Resolution,
    Rule,
    Sum,
)

POOLED: dict[Any, int] = {
    **dict.fromkeys((nn.MaxPool1d, nn.AvgPool1d, nn.AdaptiveAvgPool1d, nn.AdaptiveMaxPool1d), 3),
    **dict.fromkeys((torch.max_pool1d, F.max_pool1d, F.avg_pool1d, F.adaptive_avg_pool1d), 3),
    **dict.fromkeys((nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d), 4),
    **dict.fromkeys((torch.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.max_pool2d), 4),
    **dict.fromkeys((nn.MaxPool3d, nn.AvgPool3d, nn.AdaptiveAvgPool3d, nn.AdaptiveMaxPool3d), 5),
}
"""Poolings and the number of dimensions of their inputs; with one less, torch takes the batch for channels."""

AVERAGED: frozenset[Any] = frozenset([nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, F.avg_pool1d, F.avg_pool2d])
"""Poolings that may count the zeros around an image."""

RESIZED: frozenset[Any] = frozenset([*POOLED, nn.Upsample, F.interpolate])
"""Modules and functions that change the resolution and keep zeros and, unless they are padded, constants."""

DROPOUTS: frozenset[Any] = frozenset([nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, F.dropout])

ACTIVATIONS: frozenset[Any] = frozenset(
    [
        *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Tanh),
        *(nn.Softsign, torch.relu, torch.tanh, F.relu, F.relu6, F.leaky_relu, F.elu, F.selu, F.celu, F.gelu, F.silu),
        *(F.mish, F.hardswish, F.softsign, F.tanh, "relu", "tanh", "contiguous"),
    ]
)
"""Modules, functions and methods that process each number by itself and map zeros to zeros."""

OTHER_ACTIVATIONS: frozenset[Any] = frozenset(
    [nn.Sigmoid, nn.Softplus, nn.Hardsigmoid, nn.LogSigmoid, torch.sigmoid, F.sigmoid, F.softplus, "sigmoid"]
)
"""Those that do not map zeros to zeros."""

ADDITIONS = frozenset([operator.add, torch.add, "add"])
DIFFERENCES = frozenset([operator.sub, torch.sub, "sub"])
PRODUCTS = frozenset([operator.mul, torch.mul, "mul"])
CONCATENATIONS = frozenset([torch.cat, torch.concat, torch.concatenate])
FLATTENINGS = frozenset([nn.Flatten, torch.flatten, "flatten"])
RESHAPINGS = frozenset(["view", "reshape", torch.reshape])
REDUCTIONS = frozenset([torch.mean, torch.sum, torch.amax, torch.squeeze, "mean", "sum", "amax", "squeeze"])
"""Functions and methods that remove dimensions and map zeros to zeros."""
SUMS = frozenset([torch.sum, "sum"])
SWAPS = frozenset(["transpose", torch.transpose, "permute", torch.permute])
SPLITS = frozenset(["chunk", torch.chunk, "split", torch.split])
PADDINGS: frozenset[Any] = frozenset(
    [nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d, nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d, F.pad]
)
PIXELWISE = ACTIVATIONS | OTHER_ACTIVATIONS | DROPOUTS | ADDITIONS | DIFFERENCES | PRODUCTS | {operator.truediv}


def channel_axes(recording: Recording) -> dict[fx.Node, int]:
    """The dimension of the channels of every value with a row per row of the batch.

    That is 1 as in images, unless linear layers make, or gates on them read, the last of three or more dimensions.
    Operations number by number keep it; transpositions and reductions move it.
    """
    axes: dict[fx.Node, int] = {}
    for node in recording.network.graph.nodes:
        value = recording.values[node]
        if node not in recording.batched or value.dim() < 2:
            continue
        kind, last = _kind(recording.network, node), value.dim() - 1
        sources = [source for source in node.all_input_nodes if source in axes]
        axes[node] = 1
        if last > 1 and (kind is nn.Linear or (kind is gated and node.args[2] in (-1, last))):
            axes[node] = last
        elif kind in SWAPS and sources:
            axes[node] = _swapped(node, value.dim()).index(axes[sources[0]])
        elif (kind in REDUCTIONS or _is_first(node, kind)) and sources and axes[sources[0]] > 1:
            axis = axes[sources[0]]
            axes[node] = axis - (recording.values[sources[0]].dim() - value.dim())
        elif kind in PIXELWISE or kind is nn.LayerNorm:
            alike = [axes[source] for source in sources if recording.values[source].shape == value.shape]
            axes[node] = max(alike, default=1)
    return axes


def rule_of(flow: ChannelFlow, node: fx.Node, network: fx.GraphModule, cuttable: set[str]) -> Rule:
    """The rule for an operation; `Opaque` if it is unknown.

    Args:
        cuttable: the layers whose weights may be cut.
    """
    shape, sources, kind = flow.shape(node), node.all_input_nodes, _kind(network, node)
    if node.op == "placeholder":
        return Input()
    if kind is gated:
        _, name, dim = node.args
        assert isinstance(name, str) and isinstance(dim, int)
        elsewhere = shape is None or dim not in (flow.axis(node), flow.axis(node) - len(shape))
        return Masked(name, dim) if elsewhere else Gated(name)
    first = flow.shape(sources[0]) if sources else None
    if kind == "size" and node.args[1:] == (0,) and first is not None:
        return BatchSize()
    found = _resolution(flow, node, kind) if shape is None else _part(flow, node, kind)
    if found is None and shape is not None and first is not None:
        assert sources
        known = _layer(flow, node, network, cuttable) or _picked(flow, node, kind)
        found = known or _channelwise(flow, node, network, kind) or _joined(flow, node, kind)
    return found or Opaque(_parameters(network, node))


def _layer(flow: ChannelFlow, node: fx.Node, network: fx.GraphModule, cuttable: set[str]) -> Rule | None:
    """A module with weights."""
    if node.op != "call_module":
        return None
    module = network.get_submodule(str(node.target))
    (source, *_), dims = node.all_input_nodes, flow.values[node].dim()
    slopes = module.num_parameters if isinstance(module, nn.PReLU) else 0
    if slopes == 1:
        return Channelwise("all", parameters=module.parameters())
    if node.target not in cuttable:
        return None
    if sliced(module) and (isinstance(module, nn.Linear) or dims == module.get_parameter("weight").dim()):
        conv_elsewhere = not isinstance(module, nn.Linear) and flow.axis(source) != 1
        grouped = getattr(module, "groups", 1) > 1 and not isinstance(module, TRANSPOSED)
        return None if conv_elsewhere else GroupedLayer(module) if grouped else Layer(module)  # type: ignore[arg-type]
    if flow.axis(source) != 1:
        return None
    if isinstance(module, nn.GroupNorm):
        return GroupNormalised(module)
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) and module.groups > 1 and not depthwise(module):
        return GroupedLayer(module)
    return CutChannelwise(module) if isinstance(module, NORMS) or depthwise(module) or slopes > 1 else None


def _channelwise(flow: ChannelFlow, node: fx.Node, network: fx.GraphModule, kind: Any) -> Rule | None:
    """An operation on each channel of a value by itself."""
    sources = node.all_input_nodes
    source, dims, axis = sources[0], flow.values[sources[0]].dim(), flow.axis(sources[0])
    shape, first = flow.shape(node), flow.shape(source)
    assert shape is not None and first is not None
    alone, numbers = len(sources) == 1, [value for value in node.args if isinstance(value, int | float)]
    if first[1] != shape[1] or not all(flow.shape(other) is None for other in sources[1:]):
        return None
    if kind in ACTIVATIONS | OTHER_ACTIVATIONS | DROPOUTS and alone and axis == flow.axis(node):
        return Channelwise("never" if kind in OTHER_ACTIVATIONS else "all", "none" if kind in DROPOUTS else "computed")
    scaled = kind in PRODUCTS or (kind is operator.truediv and node.args[0] is source)
    if scaled and alone and len(numbers) == 1:
        return Channelwise("all")
    if kind in RESIZED and (alone or kind is F.interpolate) and axis == 1 and dims >= POOLED.get(kind, 2):
        return Channelwise("all", "none" if kind in AVERAGED and _pads(network, node) else "same")
    if (kind in SWAPS and alone) or (_is_first(node, kind) and axis > 1):
        return Channelwise("all", "same")
    if kind in REDUCTIONS and _reduced(node, dims).isdisjoint({0, axis}):
        return Channelwise("all", "none" if kind in SUMS else "same")
    if axis != 1:
        return None
    if kind in PADDINGS and alone and _pads_zeros_in_space(network, node, dims):
        return Channelwise("all", "none")
    if kind in FLATTENINGS and shape[:2] == first[:2] and len(shape) > 2:  # only dimensions behind the channels
        return Channelwise("all", "same")
    return None


def _joined(flow: ChannelFlow, node: fx.Node, kind: Any) -> Rule | None:
    """Channels that become features, or channels of several values together."""
    sources, shape, axis = node.all_input_nodes, flow.shape(node), flow.axis(node)
    shapes = [flow.shape(source) or () for source in sources]
    assert shape is not None
    features = math.prod(shapes[0][1:])
    if kind in FLATTENINGS | RESHAPINGS and len(shape) == 2 and shape[1] == features and flow.axis(sources[0]) == 1:
        return Flattened(math.prod(shapes[0][2:]))
    if {len(other) for other in shapes} != {len(shape)} or {flow.axis(source) for source in sources} != {axis}:
        return None
    numbers = [value for value in node.args if isinstance(value, int | float)]
    if kind in ADDITIONS and all(other == shape for other in shapes) and not any(numbers) and not node.kwargs:
        return Sum()
    same_channels = all(other[1] == shape[1] for other in shapes)  # pixels may be broadcast
    if kind in PRODUCTS | DIFFERENCES and len(sources) == 2 and same_channels and not node.kwargs:
        return Channelwise("any" if kind in PRODUCTS else "all")
    return Concatenated() if kind in CONCATENATIONS and _dimension(node) % len(shape) == axis else None


def _picked(flow: ChannelFlow, node: fx.Node, kind: Any) -> Rule | None:
    """A part of the channels, or all of them in another order."""
    (source, *_), shape = node.all_input_nodes, flow.shape(node)
    assert shape is not None
    if kind is nn.ChannelShuffle or kind is torch.channel_shuffle:
        module: Any = flow.current(node) if kind is nn.ChannelShuffle else None
        groups: Any = module.groups if module is not None else node.args[1] if len(node.args) > 1 else None
        return None if groups is None or flow.axis(source) != 1 else Picked(source, _shuffled(shape[1], groups))
    if kind in RESHAPINGS | FLATTENINGS and len(shape) > 2 and flow.axis(node) == 1:
        return _shuffle(flow, node)
    return None


def _part(flow: ChannelFlow, node: fx.Node, kind: Any) -> Rule | None:
    """``x.chunk(2, 1)[0]``, ``x.split(8, 1)[0]`` or ``x[:, :8]``."""
    if kind is not operator.getitem:
        return None
    source, place = node.args
    assert isinstance(source, fx.Node)
    if source.target in SPLITS and isinstance(place, int):
        origin, dim = source.all_input_nodes[0], source.kwargs.get("dim", source.args[2] if len(source.args) > 2 else 0)
        parts: Any = flow.values[source]
        if flow.shape(origin) is None or dim not in (flow.axis(origin), flow.axis(origin) - flow.values[origin].dim()):
            return None
        sizes = [part.shape[flow.axis(origin)] for part in parts]
        return (
            Picked(origin, torch.arange(sum(sizes)).split(sizes)[place])
            if flow.axis(node) == flow.axis(origin)
            else None
        )
    if not isinstance(place, tuple) or len(place) != 2 or place[0] != slice(None) or not isinstance(place[1], slice):
        return None
    bounds = (place[1].start, place[1].stop, place[1].step)
    shape = flow.shape(source)
    if shape is None or flow.axis(source) != 1 or not all(bound is None or isinstance(bound, int) for bound in bounds):
        return None
    return Picked(source, torch.arange(shape[1])[place[1]])


def _shuffle(flow: ChannelFlow, node: fx.Node) -> Rule | None:
    """The shuffle (B, C, ...) -> (B, g, C/g, ...) -> (B, C/g, g, ...) -> (B, C, ...), if a reshaping ends one."""
    swap = node.all_input_nodes[0]
    if swap.target == "contiguous":
        swap = swap.all_input_nodes[0]
    shape, dims = flow.values[node].shape, flow.values[node].dim() + 1
    swapped = swap.target in SWAPS and flow.values[swap].dim() == dims
    if not swapped or _swapped(swap, dims) != [0, 2, 1, *range(3, dims)]:
        return None
    split = swap.all_input_nodes[0]
    if split.target not in RESHAPINGS or flow.values[split].shape[3:] != shape[2:]:
        return None
    origin, groups = split.all_input_nodes[0], flow.values[split].shape[1]
    if not isinstance(flow.values[origin], Tensor) or flow.values[origin].shape != shape or flow.axis(origin) != 1:
        return None
    return None if flow.shape(origin) is None else Picked(origin, _shuffled(shape[1], groups))


def _shuffled(channels: int, groups: int) -> Tensor:
    return torch.arange(channels).view(groups, -1).T.flatten()


def _resolution(flow: ChannelFlow, node: fx.Node, kind: Any) -> Rule | None:
    """``x.size(2)``, ``x.shape[2]`` or ``x.shape[2:]``."""
    origin: Any = node.args[0] if node.args else None
    if kind is operator.getitem and isinstance(origin, fx.Node) and origin.target is getattr:
        origin, name = origin.args[0], origin.args[1]
        if name != "shape":
            return None
    elif kind != "size" or len(node.args) < 2:
        return None
    place = node.args[1]
    if not isinstance(origin, fx.Node) or flow.shape(origin) is None or flow.axis(origin) != 1:
        return None
    if not isinstance(place, int | slice) or (isinstance(place, slice) and place.step is not None):
        return None
    dims = range(flow.values[origin].dim())
    chosen = dims[place] if isinstance(place, slice) else [dims[place]]
    return Resolution(origin, place) if min(chosen, default=0) >= 2 else None


def _kind(network: fx.GraphModule, node: fx.Node) -> Any:
    """The class of a module, or the function or the name of the method that a node calls."""
    return type(network.get_submodule(str(node.target))) if node.op == "call_module" else node.target


def _parameters(network: fx.GraphModule, node: fx.Node) -> list[nn.Parameter]:
    """The parameters of the module or attribute that a node names."""
    if node.op not in ("call_module", "get_attr"):
        return []
    assert isinstance(node.target, str)
    found = attrgetter(node.target)(network)
    return list(found.parameters()) if isinstance(found, nn.Module) else [found] * isinstance(found, nn.Parameter)


def _is_first(node: fx.Node, kind: Any) -> bool:
    """Whether an operation is ``x[:, 0]``, or another position."""
    place: Any = node.args[1] if kind is operator.getitem else None
    return isinstance(place, tuple) and len(place) == 2 and place[0] == slice(None) and isinstance(place[1], int)


def _swapped(node: fx.Node, dims: int) -> list[int]:
    """The order of dimensions after a transposition, by their numbers before it."""
    given: Any = node.args[1:] or tuple(node.kwargs.values())
    if node.target in ("permute", torch.permute):
        given = given[0] if isinstance(given[0], tuple | list) else given
        return [dim % dims for dim in given]
    order = list(range(dims))
    first, second = (dim % dims for dim in given)
    order[first], order[second] = second, first
    return order


def _reduced(node: fx.Node, dims: int) -> set[int]:
    """The dimensions that a mean or sum removes; all of them if they are not constants."""
    given: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    given = [given] if isinstance(given, int) else given
    if not isinstance(given, tuple | list) or not all(isinstance(dim, int) for dim in given):
        return set(range(dims))
    return {dim % dims for dim in given}


def _pads(network: fx.GraphModule, node: fx.Node) -> bool:
    """Whether an average pooling may count zeros around the image, or is no mean."""
    if node.op == "call_module":
        given: Any = vars(network.get_submodule(str(node.target)))
    else:
        names = ("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
        given = dict(zip(names, node.args, strict=False)) | node.kwargs
    padding = given.get("padding", 0)
    padded = padding != 0 if isinstance(padding, int) else any(padding)
    return bool(padded and given.get("count_include_pad", True)) or given.get("divisor_override") is not None


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
