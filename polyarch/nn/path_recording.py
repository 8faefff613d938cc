"""Writing a hard path down as a plain ``torch.fx`` graph while it runs on a symbol.

``torch.fx.symbolic_trace`` patches ``nn.Module.__call__`` for the whole process while it works, which breaks every
other thread. Here blocks call their torch modules through `call`, which runs them on tensors and records them
on symbols: no patch, and the same code is forward pass and extraction.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from torch import Tensor, fx, nn
from torch.fx.proxy import GraphAppendingTracer

Path = Callable[[Tensor], Tensor]
"""A way through some modules of a network, which it calls with `call`: (B, ...) -> (B, ...), or several stacked."""


def call(module: nn.Module, x: Tensor, *, known_as: nn.Module | None = None) -> Tensor:
    """module(x), or a node of the graph that x is a symbol of; (B, ...) -> (B, ...).

    A symbol of somebody else goes through the module like a tensor.

    Args:
        known_as: the module of the network, built alike, in whose place and under whose name it is recorded.
    """
    value: Any = x  # blocks are typed for tensors; a symbol passes through the same code
    if isinstance(value, fx.Proxy) and isinstance(value.tracer, _Recorder):
        value = value.tracer.record(module, known_as or module, value)
    else:
        value = module(value)
    return cast(Tensor, value)


def constant(value: Tensor, x: Tensor, *, owner: nn.Module, name: str) -> Tensor:
    """The value itself; where x is a symbol, a parameter of the recorded network that starts with this value.

    Args:
        owner: the module of the network that stands for it; the parameter is ``name`` in its place, and where the path
            comes by several times, ``name2`` and so on for the next ones.
    """
    symbol: Any = x
    if isinstance(symbol, fx.Proxy):
        assert isinstance(symbol.tracer, _Recorder)
        symbol = symbol.tracer.record_constant(value, owner, name)
        return cast(Tensor, symbol)
    return value


class Composed(nn.Module):
    """Base of operations that are more than a row of torch modules: their ``forward`` calls its modules with `call`.

    Such an operation is recorded part by part, so that an extracted network has the parts alone.
    """


class _Recorder(GraphAppendingTracer):
    """Knows the names under which the modules of a network are found, and keeps what is used under them."""

    def __init__(self, graph: fx.Graph, names: Mapping[nn.Module, str]) -> None:
        super().__init__(graph)
        self._names = names
        self.used: dict[str, nn.Module | nn.Parameter] = {}

    def record(self, module: nn.Module, known_as: nn.Module, x: fx.Proxy) -> fx.Proxy:
        if isinstance(module, nn.Sequential):
            assert isinstance(known_as, nn.Sequential)
            for child, place in zip(module, known_as, strict=True):
                x = self.record(child, place, x)
            return x
        if isinstance(module, Composed):
            assert module is known_as  # its parts are known by their own names
            return cast(fx.Proxy, module(x))
        name = self._names[known_as]
        # A second module under one name would also replace the first where that has been recorded.
        assert self.used.setdefault(name, module) is module
        return fx.Proxy(self.graph.call_module(name, (x.node,)), self)

    def record_constant(self, value: Tensor, owner: nn.Module, name: str) -> fx.Proxy:
        name = self._free(f"{self._names[owner]}.{name}")
        self.used[name] = nn.Parameter(value.detach().clone())
        return fx.Proxy(self.graph.get_attr(name), self)

    def _free(self, name: str) -> str:
        """The name itself, or with the first number from 2 on that makes it new."""
        numbered = (f"{name}{number}" for number in itertools.count(2))
        return next(free for free in itertools.chain([name], numbered) if free not in self.used)


def record(network: nn.Module, path: Path) -> nn.Module:
    """A plain module with own weights that computes what ``path`` computes with the modules of ``network``.

    Holds only torch classes and only the modules and constants that the path's output depends on.
    """
    (graph,) = graphs_of(network, [path])
    return copy.deepcopy(graph)


def graphs_of(network: nn.Module, paths: Iterable[Path]) -> list[nn.Module]:
    """Every path as a graph over the very modules of the network."""
    names = {module: name for name, module in network.named_modules()}
    found: list[nn.Module] = []
    for path in paths:
        graph = fx.Graph()
        recorder = _Recorder(graph, names)
        symbol: Any = fx.Proxy(graph.placeholder("x"), recorder)
        output: Any = path(symbol)
        graph.output(output.node)
        used = nn.Module().train(network.training)
        for name, value in recorder.used.items():
            place(used, name, value)
        found.append(fx.GraphModule(used, graph, class_name="Network"))
    return found


def place(root: nn.Module, name: str, value: nn.Module | Tensor) -> None:
    """Puts a module, parameter or buffer where its dotted name says, with empty modules on the way."""
    *way, last = name.split(".")
    for part in way:
        if not hasattr(root, part):
            root.add_module(part, nn.Module())
        root = getattr(root, part)
    if isinstance(value, nn.Module | nn.Parameter):
        setattr(root, last, value)
    elif not hasattr(root, last):  # it came with its module, which knows whether it is saved
        root.register_buffer(last, value)
