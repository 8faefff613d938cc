"""Networks of one's own as ``torch.fx`` graphs, for those who cut channels out of them.

Nothing about the code of such a network is known, so unlike in `polyarch.nn.path_recording` its modules are not called
through a function of ours: the layers of a copy of the network get another ``forward`` for a while.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.fx.proxy import GraphAppendingTracer
from torch.utils.flop_counter import FlopCounterMode

from polyarch.errors import InvalidInput
from polyarch.nn.channel_gates import gate_hooks, remove_gates

IN_PLACE = {getattr(operator, f"i{name}"): getattr(operator, name) for name in ("add", "sub", "mul", "truediv")}
"""Operators that change their first operand, and those that do not."""
KEYWORDS = (operator.and_, operator.or_, operator.not_, operator.is_)
"""Operators whose names end like those of functions that change their first operand."""


@dataclass(frozen=True)
class Recording:
    """A copy of a network as a graph without changes in place. Gates are nodes that call `polyarch.nn.channel_gates.gated`.

    Args:
        network: the graph with its modules.
        values: what its nodes give for an example.
        batched: the nodes that give a row for every row of the example.
        macs: multiply-accumulates of its nodes for one row of the example.
        constants: tensors by name that the code of the network makes itself.
    """

    network: fx.GraphModule
    values: dict[fx.Node, Any]
    batched: frozenset[fx.Node]
    macs: dict[fx.Node, float]
    constants: dict[str, Tensor]


def recorded(model: nn.Module, example: Tensor) -> Recording:
    """The graph of a network on an example, (B, ...); the network is left as it is."""
    if len(example) == 1:
        example = torch.cat([example, example])  # to tell what has a row for every row
    try:
        root = copy.deepcopy(model).eval()
        recorder = _LayerRecorder(root)
        graph = recorder.write()
        with torch.no_grad():
            expected = root(example.clone())
        remove_gates(root)
        _without_changes_in_place(root, graph)
        _with_batch_sizes(graph)
        network = fx.GraphModule(root, graph, class_name="Network")
        values, of_one_row = _Values(network), _Values(network)
        with torch.no_grad():
            found = values.run(example)
            of_one_row.run(example[:1])
    except Exception as error:  # whatever the code of a network can raise when it is given symbols
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InvalidInput(
            f"Expected a forward of {type(model).__name__} that can be written down as a graph, as for torch.fx. "
            f"Got {type(error).__name__}: {reason}."
        ) from error
    if not isinstance(expected, Tensor):
        raise InvalidInput(f"Expected {type(model).__name__} to give one tensor. Got {type(expected).__name__}.")
    if not (isinstance(found, Tensor) and _alike(found, expected)):
        raise InvalidInput(
            f"Expected the graph of {type(model).__name__} to compute what the network computes. Got another output, "
            f"as happens where a view of a value is changed in place."
        )
    pairs = ((node, values.found[node], of_one_row.found[node]) for node in graph.nodes)
    batched = frozenset(node for node, many, one in pairs if _follows_rows(many, one, len(example)))
    macs = {node: flops / 2 for node, flops in of_one_row.flops.items()}
    return Recording(network, values.found, batched, macs, recorder.constants)


def _follows_rows(many: Any, one: Any, rows: int) -> bool:
    """Whether two values, of a batch and of one row of it, have a row for every row."""
    if not (isinstance(many, Tensor) and isinstance(one, Tensor)) or not many.dim() or many.dim() != one.dim():
        return False
    return len(many) == rows and len(one) == 1


def _alike(found: Tensor, expected: Tensor) -> bool:
    """Whether two outputs are the same; on the meta device, where there are no numbers, their shapes."""
    if found.is_meta:
        return found.shape == expected.shape
    return torch.allclose(found, expected, rtol=1e-3, atol=1e-5, equal_nan=True)


class _Weight(fx.Proxy):
    """A parameter or buffer as a symbol; its form is known."""

    def __init__(self, node: fx.Node, tracer: GraphAppendingTracer, weight: Tensor) -> None:
        super().__init__(node, tracer)
        self.shape, self.ndim, self.dtype, self.device = weight.shape, weight.ndim, weight.dtype, weight.device
        self.size, self.dim, self.numel = weight.size, weight.dim, weight.numel

    def __len__(self) -> int:
        return self.shape[0]


class _LayerRecorder(GraphAppendingTracer):
    """Writes down what the code of a module does with a symbol; the layers of ``torch.nn`` are nodes.

    Parameters and buffers are symbols, too: what the code makes of them stays theirs when they are trained. Other
    tensors are constants.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(fx.Graph())
        self._model = model
        self.constants: dict[str, Tensor] = {}

    def write(self) -> fx.Graph:
        """The graph of a pass."""
        layers = {name: module for name, module in self._model.named_modules() if _is_layer(module)}
        weights = self._weights()
        for name, module in layers.items():
            module.forward = partial(self._called, name, module.forward)
        for place, key, _, symbol in weights:
            place[key] = symbol
        try:
            output = self._model(fx.Proxy(self.graph.placeholder("x"), self))
            self.graph.output(self.create_arg(output))
        finally:
            for module in layers.values():
                del module.forward
            for place, key, weight, _ in weights:
                place[key] = weight
        for node in {symbol.node for *_, symbol in weights}:
            if not node.users:
                self.graph.erase_node(node)
        return self.graph

    def _weights(self) -> list[tuple[dict[str, Any], str, Tensor, _Weight]]:
        """Where every parameter and buffer is found, and the symbol that stands for it; shared ones have one."""
        symbols: dict[int, _Weight] = {}
        for name, weight in [*self._model.named_parameters(), *self._model.named_buffers()]:
            symbols[id(weight)] = _Weight(self.graph.get_attr(name), self, weight)
        return [
            (place, key, weight, symbols[id(weight)])
            for module in self._model.modules()
            for place in (module._parameters, module._buffers)
            for key, weight in place.items()
            if weight is not None
        ]

    def _called(self, name: str, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if isinstance(self._model.get_submodule(name), nn.Identity):
            return forward(*args, **kwargs)  # the same value, also if it is changed in place afterwards
        if any(isinstance(value, fx.Proxy) for value in (*args, *kwargs.values())):
            return self.create_proxy("call_module", name, args, kwargs)
        return forward(*args, **kwargs)

    def create_arg(self, a: Any) -> Any:
        """Tensors that the code makes itself are found by names that they get here; numbers of numpy are numbers."""
        if isinstance(a, np.generic):
            return a.item()
        if not isinstance(a, Tensor):
            return super().create_arg(a)
        name = f"_constant_{len(self.constants)}"
        self.constants[name] = a.detach()
        self._model.register_buffer(name, self.constants[name], persistent=False)
        return self.graph.get_attr(name)


def _is_layer(module: nn.Module) -> bool:
    """Whether a module is a node: one of ``torch.nn`` without gates inside of it."""
    known = type(module).__module__.startswith("torch.nn.") and not isinstance(module, nn.Sequential)
    return known and not any(gate_hooks(part) for part in module.modules() if part is not module)


class _Values(fx.Interpreter):
    """Runs a graph and notes the value and the floating-point operations of every node."""

    def __init__(self, network: fx.GraphModule) -> None:
        super().__init__(network, garbage_collect_values=False)
        self.found: dict[fx.Node, Any] = {}
        self.flops: dict[fx.Node, int] = {}

    def run_node(self, n: fx.Node) -> Any:
        with FlopCounterMode(display=False) as counter:
            self.found[n] = super().run_node(n)
        self.flops[n] = counter.get_total_flops()
        return self.found[n]


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
    if not name.endswith("_") or name.endswith("__") or target in KEYWORDS:
        return IN_PLACE.get(target, target)
    return name[:-1] if node.op == "call_method" else getattr(torch, name[:-1], None) or getattr(F, name[:-1])


def _with_batch_sizes(graph: fx.Graph) -> None:
    """Writes x.shape[0] as x.size(0)."""
    for node in graph.nodes:
        if node.target is operator.getitem and node.args[1] == 0:
            shape = node.args[0]
            if shape.target is getattr and shape.args[1] == "shape":
                node.op, node.target, node.args = "call_method", "size", (shape.args[0], 0)
