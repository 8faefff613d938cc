"""Networks of one's own as ``torch.fx`` graphs, for those who cut channels out of them.

Nothing about the code of such a network is known, so unlike in `polyarch.nn.recording` its modules are not called
through a function of ours: the layers of a copy of the network get another ``forward`` for a while.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.fx.proxy import GraphAppendingTracer
from torch.utils.flop_counter import FlopCounterMode

from polyarch.errors import InvalidInput
from polyarch.nn.gated import remove_gates

IN_PLACE = {getattr(operator, f"i{name}"): getattr(operator, name) for name in ("add", "sub", "mul", "truediv")}
"""Operators that change their first operand, and those that do not."""


@dataclass(frozen=True)
class Recording:
    """A copy of a network as a graph without changes in place. Gates are nodes that call `polyarch.nn.gated.gated`.

    Args:
        network: the graph with its modules.
        values: what its nodes give for an example.
        macs: multiply-accumulates of its nodes for one row of the example.
    """

    network: fx.GraphModule
    values: dict[fx.Node, Any]
    macs: dict[fx.Node, float]


def recorded(model: nn.Module, example: Tensor) -> Recording:
    """The graph of a network on an example, (B, ...); the network is left as it is."""
    root = copy.deepcopy(model).eval()
    try:
        graph = _LayerRecorder(root).write()
    except (fx.proxy.TraceError, AttributeError, TypeError, NotImplementedError, RuntimeError) as error:
        raise InvalidInput(
            f"Expected a forward of {type(model).__name__} that can be written down as a graph, as for torch.fx. "
            f"Got {type(error).__name__}: {str(error).rstrip('.')}."
        ) from error
    with torch.no_grad():
        expected = root(example.clone())
    remove_gates(root)
    _without_changes_in_place(root, graph)
    _with_batch_sizes(graph)
    network = fx.GraphModule(root, graph, class_name="Network")
    interpreter = _Values(network)
    with torch.no_grad():
        found = interpreter.run(example)
    if not (isinstance(found, Tensor) and _alike(found, expected)):
        raise InvalidInput(
            f"Expected the graph of {type(model).__name__} to compute what the network computes. Got another output."
        )
    macs = {node: flops / 2 / len(example) for node, flops in interpreter.flops.items()}
    return Recording(network, interpreter.values, macs)


def _alike(found: Tensor, expected: Tensor) -> bool:
    """Whether two outputs are the same; on the meta device, where there are no numbers, their shapes."""
    if found.is_meta:
        return found.shape == expected.shape
    return torch.allclose(found, expected, rtol=1e-3, atol=1e-5, equal_nan=True)


class _LayerRecorder(GraphAppendingTracer):
    """Writes down what the code of a module does with a symbol; the layers of ``torch.nn`` are nodes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(fx.Graph())
        self._model = model
        self._names = {id(tensor): name for name, tensor in [*model.named_parameters(), *model.named_buffers()]}

    def write(self) -> fx.Graph:
        """The graph of a pass."""
        layers = {
            name: module
            for name, module in self._model.named_modules()
            if type(module).__module__.startswith("torch.nn.") and not isinstance(module, nn.Sequential)
        }
        for name, module in layers.items():
            module.forward = partial(self._called, name, module.forward)
        try:
            output = self._model(fx.Proxy(self.graph.placeholder("x"), self))
            self.graph.output(self.create_arg(output))
        finally:
            for module in layers.values():
                del module.forward
        return self.graph

    def _called(self, name: str, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(value, fx.Proxy) for value in (*args, *kwargs.values())):
            return self.create_proxy("call_module", name, args, kwargs)
        return forward(*args, **kwargs)

    def create_arg(self, a: Any) -> Any:
        """Parameters and buffers that the code uses by itself are found by their names."""
        if isinstance(a, Tensor) and id(a) in self._names:
            return self.graph.get_attr(self._names[id(a)])
        return super().create_arg(a)


class _Values(fx.Interpreter):
    """Runs a graph and notes the value and the floating-point operations of every node."""

    def __init__(self, network: fx.GraphModule) -> None:
        super().__init__(network, garbage_collect_values=False)
        self.values: dict[fx.Node, Any] = {}
        self.flops: dict[fx.Node, int] = {}

    def run_node(self, n: fx.Node) -> Any:
        with FlopCounterMode(display=False) as counter:
            self.values[n] = super().run_node(n)
        self.flops[n] = counter.get_total_flops()
        return self.values[n]


def _without_changes_in_place(root: nn.Module, graph: fx.Graph) -> None:
    """Makes a new value of every change in place; what reads the changed one later reads the new one."""
    order = {node: position for position, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        module = root.get_submodule(node.target) if node.op == "call_module" else None
        copying = _copying(node)
        if not (getattr(module, "inplace", False) or node.kwargs.get("inplace") or copying != node.target):
            continue
        for user in list(node.all_input_nodes[0].users):
            if order[user] > order[node]:
                user.replace_input_with(node.all_input_nodes[0], node)
        node.target = copying
        if module is not None:
            module.inplace = False  # type: ignore[assignment]
        if "inplace" in node.kwargs:
            node.kwargs = {**node.kwargs, "inplace": False}


def _copying(node: fx.Node) -> Any:
    """The operation that a node calls, or the one that gives a new value in place of changing the old one."""
    target: Any = node.target
    if node.op not in ("call_method", "call_function"):
        return target
    name = target if node.op == "call_method" else target.__name__
    if not name.endswith("_") or name.endswith("__"):
        return IN_PLACE.get(target, target)
    return name[:-1] if node.op == "call_method" else getattr(torch, name[:-1], None) or getattr(F, name[:-1])


def _with_batch_sizes(graph: fx.Graph) -> None:
    """Writes x.shape[0] as x.size(0)."""
    for node in graph.nodes:
        if node.target is operator.getitem and node.args[1] == 0:
            shape = node.args[0]
            if shape.target is getattr and shape.args[1] == "shape":
                node.op, node.target, node.args = "call_method", "size", (shape.args[0], 0)
