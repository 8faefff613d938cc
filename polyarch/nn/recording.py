"""Writing a hard path down as a plain ``torch.fx`` graph while it runs on a symbol.

``torch.fx.symbolic_trace`` patches ``nn.Module.__call__`` for the whole process while it works, which breaks every
other thread. Here blocks call their torch modules through `call`, which runs them on tensors and records them
on symbols: no patch, and the same code is forward pass and extraction.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from torch import Tensor, fx, nn
from torch.fx.proxy import GraphAppendingTracer

Path = Callable[[Tensor], Tensor]
"""A way through some modules of a network, which it calls with `call`: (B, ...) -> (B, ...)."""


def call(module: nn.Module, x: Tensor) -> Tensor:
    """module(x), or a node of the graph that x is a symbol of; (B, ...) -> (B, ...)."""
    value: Any = x  # blocks are typed for tensors; a symbol passes through the same code
    if isinstance(value, fx.Proxy):
        assert isinstance(value.tracer, _Recorder)
        value = value.tracer.record(module, value)
    else:
        value = module(value)
    return cast(Tensor, value)


class _Recorder(GraphAppendingTracer):
    """Knows the names under which the modules of a network are found."""

    def __init__(self, graph: fx.Graph, names: Mapping[nn.Module, str]) -> None:
        super().__init__(graph)
        self._names = names

    def record(self, module: nn.Module, x: fx.Proxy) -> fx.Proxy:
        if isinstance(module, nn.Sequential):
            for child in module:
                x = self.record(child, x)
            return x
        node = self.graph.call_module(self._names[module], (x.node,))
        return fx.Proxy(node, self)


def record(network: nn.Module, path: Path) -> nn.Module:
    """A plain module with own weights that computes what ``path`` computes with the modules of ``network``.

    Holds only torch classes and only the modules that the path's output depends on.
    """
    (graph,) = graphs_of(network, [path])
    return copy.deepcopy(graph)


def graphs_of(network: nn.Module, paths: Iterable[Path]) -> list[nn.Module]:
    """Every path as a graph over the very modules of the network."""
    names = {module: name for name, module in network.named_modules()}
    found: list[nn.Module] = []
    for path in paths:
        graph = fx.Graph()
        symbol: Any = fx.Proxy(graph.placeholder("x"), _Recorder(graph, names))
        output: Any = path(symbol)
        graph.output(output.node)
        found.append(fx.GraphModule(network, graph, class_name="Network"))
    return found
