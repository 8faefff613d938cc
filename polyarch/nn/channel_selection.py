"""Selects channels of images in either memory layout."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import GraphAppendingTracer
from torch.fx.subgraph_rewriter import replace_pattern


def select_channels(x: Tensor, indices: Tensor) -> Tensor:
    """x[:, indices], as fast as a copy if x is channels-last: (B, C, H, W), (K,) -> (B, K, H, W).

    Treats images as rows of channels. torch's own selection takes five times as long and loses the layout.
    """
    rows = torch.index_select(x.permute(0, 2, 3, 1).flatten(0, 2), 1, indices)
    images: Tensor = rows.unflatten(0, (x.size(0), x.size(2), x.size(3)))
    return images.permute(0, 3, 1, 2)


def select_planes(x: Tensor, indices: Tensor) -> Tensor:
    """x[:, indices] for images in the default layout, in which the pixels of a channel are contiguous."""
    return torch.index_select(x, 1, indices)


def appended(graph: fx.Graph, function: Callable[..., Tensor], *values: fx.Node) -> fx.Node:
    """Adds a function of values of a graph to that graph."""
    tracer = GraphAppendingTracer(graph)
    result: Any = function(*(fx.Proxy(value, tracer) for value in values))
    node: fx.Node = result.node
    return node


def with_planes(network: nn.Module) -> nn.Module:
    """Replaces `select_channels` by `select_planes` in a network, in place, for inputs in the default layout."""
    for module in network.modules():
        if isinstance(module, fx.GraphModule):
            replace_pattern(module, _graph_of(select_channels), _graph_of(select_planes))
    return network


def _graph_of(function: Callable[[Tensor, Tensor], Tensor]) -> fx.GraphModule:
    graph = fx.Graph()
    graph.output(appended(graph, function, graph.placeholder("x"), graph.placeholder("indices")))
    return fx.GraphModule(nn.Module(), graph)
