"""What remains of layers with weights when channels are removed: rows and columns of kernels, or whole groups."""

import copy
import operator
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.nn.channel_flow import ChannelFlow, Mask
from polyarch.nn.channel_gates import TRANSPOSED, depthwise
from polyarch.nn.channel_rules import Channelwise, Reads, Rule, share
from polyarch.nn.operations import NARROW

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class CutChannelwise(Channelwise):
    """A module with weights for each channel: batch normalisation, depthwise convolution, PReLU.

    Batch normalisation of a constant is a constant: its value in evaluation mode.
    """

    def __init__(self, module: nn.Module) -> None:
        keeps_zeros = isinstance(module, nn.PReLU) or (depthwise(module) and module.bias is None)
        statistics = not isinstance(module, NORMS) or module.running_mean is not None
        computed = statistics and not depthwise(module)
        super().__init__("all" if keeps_zeros else "never", "computed" if computed else "none", module.parameters())
        self.module = module

    def fixed(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The fixed channels of the input; of a depthwise convolution its zero channels, which leave the bias."""
        return flow.zero[node.all_input_nodes[0]] if depthwise(self.module) else super().fixed(flow, node)

    def level(self, flow: ChannelFlow, node: fx.Node) -> Tensor:
        """The bias of a depthwise convolution; what other modules make of constants in evaluation mode."""
        module = flow.current(node)
        if depthwise(module):
            return flow.blank(node) if module.bias is None else module.bias.detach()
        if isinstance(module, NORMS):
            pixel = flow.level(node.all_input_nodes[0])[None]
            tensors = (module.running_mean, module.running_var, module.weight, module.bias)
            normalised = F.batch_norm(pixel, *tensors, training=False, eps=module.eps)
            return normalised[0]
        return super().level(flow, node)

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Applies the module, cut to the channels that are read."""
        module = flow.own(node)
        _cut(module, flow.read[node])
        for name in ("num_features", "num_parameters", "in_channels", "out_channels", "groups"):
            if hasattr(module, name):
                setattr(module, name, int(flow.read[node].sum()))
        return super().make(flow, node)

    def carrier(self, flow: ChannelFlow, node: fx.Node) -> fx.Node:
        """That of the input, or of what a convolution makes of it."""
        return _resized(flow, node, self.module) if depthwise(self.module) else Rule.carrier(self, flow, node)

    def cost(self, flow: ChannelFlow, node: fx.Node) -> tuple[dict[nn.Parameter, int], float]:
        """Parameters and multiply-accumulates in proportion to the channels."""
        (sizes, macs), kept = super().cost(flow, node), share(flow.read[node])
        return {parameter: round(size * kept) for parameter, size in sizes.items()}, macs


class GroupNormalised(Rule):
    """Group normalisation: a group needs all of its channels while one of them is read."""

    def __init__(self, module: nn.GroupNorm) -> None:
        super().__init__(module.parameters())
        self.groups = module.num_groups

    def fixed(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The groups whose channels are all fixed."""
        return self._by_group(flow.fixed[node.all_input_nodes[0]], torch.all)

    def level(self, flow: ChannelFlow, node: fx.Node) -> Tensor:
        """Constants, normalised by group."""
        module, level = flow.current(node), flow.level(node.all_input_nodes[0])
        found: Tensor = F.group_norm(level[None], self.groups, module.weight, module.bias, module.eps)[0]
        return found

    def origins(self, flow: ChannelFlow, node: fx.Node, known: Mapping[fx.Node, Tensor]) -> list[Tensor]:
        """The channels of the input."""
        return [known[node.all_input_nodes[0]]]

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """All channels of the groups that are read."""
        return [(node.all_input_nodes[0], self._by_group(flow.read[node], torch.any))]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Normalises the groups that are read."""
        ((_, channels),), module = self.reads(flow, node), flow.own(node)
        _cut(module, channels)
        module.num_channels, module.num_groups = int(channels.sum()), round(self.groups * share(channels))
        return flow.repeat(node, channels), channels

    def cost(self, flow: ChannelFlow, node: fx.Node) -> tuple[dict[nn.Parameter, int], float]:
        """Parameters in proportion to the groups."""
        ((_, channels),) = self.reads(flow, node)
        return {one: round(one.numel() * share(channels)) for one in self.parameters}, flow.macs[node]

    def _by_group(self, mask: Mask, reduction: Any) -> Mask:
        rows = mask.view(self.groups, -1)
        found: Mask = reduction(rows, 1).repeat_interleave(rows.shape[1])
        return found


class Layer(Rule):
    """A convolution without groups, transposed or not, or a linear layer, which reads all channels that are not zero.

    What constants contribute is the same for any input: it is added to the bias or, where padding makes a difference
    at the border, read from a single channel of ones.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module.parameters())
        self.module: Any = module
        linear = isinstance(module, nn.Linear)
        self.uniform = linear or (not isinstance(module, TRANSPOSED) and _has_no_border(module))

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """All channels of a layer without bias whose input is zero."""
        all_zero = self._aligned(flow, node) and bool(flow.zero[node.all_input_nodes[0]].all())
        return flow.everything(node) if all_zero and self.module.bias is None else flow.nothing(node)

    def fixed(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """All channels of a layer whose input is zero, or constant where there is no border."""
        varying, constant = self._columns(flow, node)
        return ~flow.nothing(node) & (not varying.any() and (self.uniform or not constant.any()))

    def level(self, flow: ChannelFlow, node: fx.Node) -> Tensor:
        """What the constants contribute, and the bias."""
        module, source = flow.current(node), node.all_input_nodes[0]
        found = _by_rows(module, module.weight.detach())[..., None].flatten(2).sum(2) @ flow.level(source)
        return found if module.bias is None else found + module.bias.detach()

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """All channels that are not fixed, whichever outputs are read."""
        (source,) = node.all_input_nodes
        return [(source, self._columns(flow, node)[0] if self._aligned(flow, node) else flow.everything(source))]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Applies the layer, cut to the remaining rows and columns."""
        (varying, constant), rows = self._columns(flow, node), flow.read[node]
        module, source = flow.own(node), node.all_input_nodes[0]
        _cut(module, rows, varying)
        if not constant.any():
            return self._applied(flow, node, module), rows
        folded = self._folded(flow, node, rows, flow.level(source))  # (rows, ...)
        if self.uniform:
            total = folded[..., None].flatten(1).sum(1)
            total = total if module.bias is None else module.bias.detach() + total
            module.bias = nn.Parameter(total.to(module.weight.dtype))
            return self._applied(flow, node, module), rows
        border = copy.deepcopy(module)
        border.in_channels, border.out_channels = 1, int(rows.sum())
        border.weight = nn.Parameter(_by_rows(border, folded[:, None]).contiguous())
        ones = flow.graph.call_function(torch.narrow, (flow.carrier(source), 0, 0, 1))
        ones = flow.graph.call_function(torch.add, (ones, 1))
        if varying.any():
            border.bias = None
            added = flow.graph.call_module(flow.place(node, border, "_border"), (ones,))
            return flow.graph.call_function(torch.add, (self._applied(flow, node, module), added)), rows
        alone = flow.graph.call_module(flow.place(node, border, "_border"), (ones,))
        sizes: Any = (flow.batch_size(), *[-1] * (flow.values[node].dim() - 1))
        return flow.graph.call_method("expand", (alone, *sizes)), rows

    def carrier(self, flow: ChannelFlow, node: fx.Node) -> fx.Node:
        """Zeros at the resolution of the output, from zeros at that of the input."""
        (source,) = node.all_input_nodes
        if not self._aligned(flow, node):
            return super().carrier(flow, node)
        return flow.carrier(source) if isinstance(self.module, nn.Linear) else _resized(flow, node, self.module)

    def cost(self, flow: ChannelFlow, node: fx.Node) -> tuple[dict[nn.Parameter, int], float]:
        """Kernel and multiply-accumulates in proportion to rows and columns, the bias in proportion to rows."""
        varying, constant = self._columns(flow, node)
        rows, weight = share(flow.read[node]), self.module.get_parameter("weight")
        ones = 1 if constant.any() and not self.uniform else 0
        columns = (int(varying.sum()) + ones) / len(varying)
        sizes = {one: round(one.numel() * rows * (columns if one is weight else 1)) for one in self.parameters}
        if constant.any() and self.uniform and self.module.bias is None:
            sizes[weight] += int(flow.read[node].sum())  # its bias is new
        return sizes, flow.macs[node] * rows * columns

    def _applied(self, flow: ChannelFlow, node: fx.Node, module: nn.Module) -> fx.Node:
        """The layer, already cut, on the columns that vary."""
        ((source, columns),) = self.reads(flow, node)
        inputs, kind = int(columns.sum()), "features" if isinstance(module, nn.Linear) else "channels"
        if self._aligned(flow, node):
            setattr(module, f"in_{kind}", inputs)
        setattr(module, f"out_{kind}", int(flow.read[node].sum()))
        if isinstance(module, nn.Conv2d) and module.stride != (1, 1) and inputs < NARROW and _reads_pixels(module):
            picked = flow.graph.call_function(F.avg_pool2d, (flow.take(source, columns), 1, module.stride))
            module.stride = (1, 1)
            return flow.call(node, picked)
        return flow.repeat(node, columns)

    def _folded(self, flow: ChannelFlow, node: fx.Node, rows: Mask, level: Tensor) -> Tensor:
        """The kernel's columns, weighted by the constants that they read and added up, (rows, ...)."""
        module = flow.current(node)
        kernel = _taken(_by_rows(module, module.weight.detach()), 0, rows)
        folded: Tensor = torch.tensordot(kernel.movedim(1, -1), level.to(kernel), dims=1)
        return folded

    def _columns(self, flow: ChannelFlow, node: fx.Node) -> tuple[Mask, Mask]:
        """The columns of the kernel that read what varies, and those that read constants other than zero."""
        (source,) = node.all_input_nodes
        if self._aligned(flow, node):
            return ~flow.fixed[source], flow.constants(source)
        weight = _by_rows(self.module, self.module.get_parameter("weight"))
        return torch.ones(weight.shape[1], dtype=torch.bool), torch.zeros(weight.shape[1], dtype=torch.bool)

    @staticmethod
    def _aligned(flow: ChannelFlow, node: fx.Node) -> bool:
        """Whether the channels of the input are known to be in the dimension that the layer reads."""
        return flow.axis(node.all_input_nodes[0]) == flow.axis(node)


class GroupedLayer(Rule):
    """A convolution in groups: groups that are not read disappear, and the others become as narrow as the widest."""

    def __init__(self, module: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> None:
        super().__init__(module.parameters())
        self.module = module

    def zero(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The groups without bias whose inputs are zero."""
        return self.fixed(flow, node) if self.module.bias is None else flow.nothing(node)

    def fixed(self, flow: ChannelFlow, node: fx.Node) -> Mask:
        """The groups whose inputs are zero, which leave the bias."""
        zero = self._by_group(flow.zero[node.all_input_nodes[0]]).all(1)
        return zero.repeat_interleave(self.module.out_channels // self.module.groups)

    def level(self, flow: ChannelFlow, node: fx.Node) -> Tensor:
        """The bias."""
        bias = flow.current(node).bias
        return flow.blank(node) if bias is None else bias.detach()

    def reads(self, flow: ChannelFlow, node: fx.Node) -> Reads:
        """The channels that are not zero, of the groups that are read."""
        (source,) = node.all_input_nodes
        groups = self._by_group(flow.read[node]).any(1)[:, None]
        return [(source, (self._by_group(~flow.zero[source]) & groups).flatten())]

    def make(self, flow: ChannelFlow, node: fx.Node) -> tuple[fx.Node, Mask]:
        """Applies the remaining groups, each cut to as many rows and columns as the others."""
        rows, columns = self._cuts(flow, node)
        module = flow.own(node)
        kept, height, width = rows.any(1), int(rows.sum(1).max()), int(columns.sum(1).max())
        weight = module.weight.detach()
        blocks = [
            _taken(_taken(block, 0, rows[group]), 1, columns[group])
            for group, block in enumerate(weight.unflatten(0, (module.groups, -1)))
            if kept[group]
        ]
        module.weight = nn.Parameter(torch.cat(blocks), requires_grad=module.weight.requires_grad)
        if module.bias is not None:
            module.bias = nn.Parameter(_taken(module.bias.detach(), 0, rows.flatten()))
        module.groups = int(kept.sum())
        module.in_channels, module.out_channels = module.groups * width, module.groups * height
        return flow.repeat(node, columns.flatten()), rows.flatten()

    def carrier(self, flow: ChannelFlow, node: fx.Node) -> fx.Node:
        """Zeros at the resolution of the output, from zeros at that of the input."""
        return _resized(flow, node, self.module)

    def cost(self, flow: ChannelFlow, node: fx.Node) -> tuple[dict[nn.Parameter, int], float]:
        """Kernel and multiply-accumulates in proportion to what remains of the groups."""
        rows, columns = self._cuts(flow, node)
        weight = self.module.get_parameter("weight")
        kernel = share(rows.flatten()) * int(columns.sum(1).max()) / columns.shape[1]
        sizes = {
            one: round(one.numel() * (kernel if one is weight else share(rows.flatten()))) for one in self.parameters
        }
        return sizes, flow.macs[node] * kernel

    def _cuts(self, flow: ChannelFlow, node: fx.Node) -> tuple[Mask, Mask]:
        """The rows and columns of every group that remain, (groups, rows) and (groups, columns).

        Each group is filled up with rows that nobody reads and columns that read zeros.
        """
        rows = self._by_group(flow.read[node])
        ((_, columns),) = self.reads(flow, node)
        kept = rows.any(1)
        return _filled_up(rows, kept), _filled_up(self._by_group(columns), kept)

    def _by_group(self, mask: Mask) -> Mask:
        return mask.view(self.module.groups, -1)


def _filled_up(mask: Mask, kept: Mask) -> Mask:
    """Adds entries to the kept rows of a mask, the first that are free, until all have as many as the fullest."""
    most = int(mask.sum(1).max())
    first = torch.argsort(~mask, dim=1, stable=True)[:, :most]
    return torch.zeros_like(mask).scatter(1, first, True) & kept[:, None]


def _has_no_border(module: nn.Module) -> bool:
    """Whether a convolution of a constant image is a constant image."""
    padding: Any = module.padding
    padded = padding == "same" if isinstance(padding, str) else any(padding)
    return not padded or module.padding_mode != "zeros"


def _resized(flow: ChannelFlow, node: fx.Node, module: Any) -> fx.Node:
    """Zeros at the resolution of the output of a convolution: padded or cropped, then every stride-th pixel.

    A convolution makes floor((n + 2 padding - reach) / stride) + 1 pixels of n, with reach = dilation (kernel - 1) + 1;
    a transposed one (n - 1) stride - 2 padding + reach + output padding.
    """
    zeros = flow.carrier(node.all_input_nodes[0])
    sizes: Any = zip(module.dilation, module.kernel_size, strict=True)
    reaches = [dilation * (kernel - 1) + 1 for dilation, kernel in sizes]
    padding = module.padding
    if isinstance(padding, str):
        padding = [0] * len(reaches)
        reaches = [1] * len(reaches) if module.padding == "same" else reaches
    if isinstance(module, TRANSPOSED):
        for axis, stride in enumerate(module.stride, start=2):
            zeros = flow.graph.call_function(torch.repeat_interleave, (zeros, stride, axis))
        sizes = zip(padding, reaches, module.stride, module.output_padding, strict=True)
        changes = [reach - 2 * pad - stride + extra for pad, reach, stride, extra in sizes]
    else:
        changes = [2 * pad - reach + 1 for pad, reach in zip(padding, reaches, strict=True)]
    if any(changes):
        pairs = [number for change in reversed(changes) for number in (0, change)]
        zeros = flow.graph.call_function(F.pad, (zeros, pairs))
    if isinstance(module, TRANSPOSED) or all(stride == 1 for stride in module.stride):
        return zeros
    steps = (slice(None), slice(None), *(slice(None, None, stride) for stride in module.stride))
    return flow.graph.call_function(operator.getitem, (zeros, steps))


def _reads_pixels(module: nn.Conv2d) -> bool:
    """Whether each output depends on a single pixel; for strides with few inputs see `operations.pointwise`."""
    return module.kernel_size == (1, 1) and module.padding in ((0, 0), "valid", "same")


def _by_rows(module: nn.Module, weight: Tensor) -> Tensor:
    """A kernel with outputs first and inputs second, which transposed convolutions have the other way round."""
    return weight.transpose(0, 1) if isinstance(module, TRANSPOSED) else weight


def _cut(module: nn.Module, rows: Mask, columns: Mask | None = None) -> None:
    """Keeps these rows of all tensors of a layer, and these columns of its kernel."""
    for name, parameter in list(module.named_parameters(recurse=False)):
        value = parameter.detach()
        value = _by_rows(module, value) if name == "weight" and columns is not None else value
        value = _taken(value, 0, rows)
        if columns is not None and name == "weight":
            value = _by_rows(module, _taken(value, 1, columns)).contiguous()
        if parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last):
            value = value.contiguous(memory_format=torch.channels_last)
        setattr(module, name, nn.Parameter(value, requires_grad=parameter.requires_grad))
    for name, buffer in module.named_buffers(recurse=False):
        if buffer.dim():  # all but the count of batches
            setattr(module, name, _taken(buffer, 0, rows))


def _taken(value: Tensor, dim: int, mask: Mask) -> Tensor:
    """Copies the entries of a dimension that a mask selects, by position because masks fail on the meta device."""
    return value.index_select(dim, mask.nonzero().flatten().to(value.device))
