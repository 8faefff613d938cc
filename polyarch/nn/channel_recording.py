"""Records a user's network as a ``torch.fx`` graph, from which channels can be removed.

The user's code does not call modules through `polyarch.nn.call`, as `polyarch.nn.path_recording` requires. Instead, the
layers of a copy of the network temporarily get another ``forward``.
"""

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
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from polyarch.data.named_inputs import Inputs, NamedInputs, joined, mapped
from polyarch.errors import InvalidInput
from polyarch.nn.channel_gates import gate_hooks, remove_gates

IN_PLACE = {getattr(operator, f"i{name}"): getattr(operator, name) for name in ("add", "sub", "mul", "truediv")}
"""Operators that change their first operand -> those that return a new value."""
KEYWORDS = (operator.and_, operator.or_, operator.not_, operator.is_)
"""Operators whose names end in ``_`` although they do not change their first operand."""


@dataclass(frozen=True)
class Recording:
    """A copy of a network as a graph without changes in place, in which gates are calls of `channel_gates.gated`."""

    network: fx.GraphModule
    values: dict[fx.Node, Any]  # the value of every node for an example batch
    batched: frozenset[fx.Node]  # the nodes whose values have one row per row of the batch
    macs: dict[fx.Node, float]  # the multiply-accumulates of every node for one row
    constants: dict[str, Tensor]  # tensors that the code of the network creates, by name
    named: bool  # whether the inputs of the network are named


def recorded(model: nn.Module, example: Inputs) -> Recording:
    """Records a network on an example batch (B, ...) without modifying it."""
    if len(example) == 1:
        example = joined([example, example])  # two rows, to see which values have a row per row
    try:
        root = copy.deepcopy(model).eval()
        recorder = _LayerRecorder(root)
        graph = recorder.write(tuple(example.keys()) if isinstance(example, NamedInputs) else None)
        with torch.no_grad():
            expected = root(mapped(Tensor.clone, example))
        remove_gates(root)
        _without_changes_in_place(root, graph)
        _with_batch_sizes(graph)
        network = fx.GraphModule(root, graph, class_name="Network")
        values, of_one_row = _Values(network), _Values(network)
        with torch.no_grad():
            found = values.run(*pytree.tree_leaves(example))
            of_one_row.run(*pytree.tree_leaves(example[:1]))
    except Exception as error:  # the user's code may raise anything when it runs on symbols
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InvalidInput(
            f"Expected a forward of {type(model).__name__} that torch.fx can trace. "
            f"Got {type(error).__name__}: {reason}."
        ) from error
    if not isinstance(expected, Tensor):
        raise InvalidInput(f"Expected {type(model).__name__} to return one tensor. Got {type(expected).__name__}.")
    if not (isinstance(found, Tensor) and _alike(found, expected)):
        raise InvalidInput(
            f"Expected the graph of {type(model).__name__} to compute the same as the network. Got another output, "
            f"as happens if a view is changed in place."
        )
    pairs = ((node, values.found[node], of_one_row.found[node]) for node in graph.nodes)
    batched = frozenset(node for node, many, one in pairs if _follows_rows(many, one, len(example)))
    macs = {node: flops / 2 for node, flops in of_one_row.flops.items()}
    return Recording(network, values.found, batched, macs, recorder.constants, isinstance(example, NamedInputs))


def _follows_rows(many: Any, one: Any, rows: int) -> bool:
    """Whether two values, for a batch and for one of its rows, have one row per row."""
    if not (isinstance(many, Tensor) and isinstance(one, Tensor)) or not many.dim() or many.dim() != one.dim():
        return False
    return len(many) == rows and len(one) == 1


def _alike(found: Tensor, expected: Tensor) -> bool:
    """Whether two outputs are close; on the meta device, which has no numbers, whether their shapes are equal."""
    if found.is_meta:
        return found.shape == expected.shape
    return torch.allclose(found, expected, rtol=1e-3, atol=1e-5, equal_nan=True)


class _Weight(fx.Proxy):
    """A symbol for a parameter or buffer, with its known shape and type."""

    def __init__(self, node: fx.Node, tracer: GraphAppendingTracer, weight: Tensor) -> None:
        super().__init__(node, tracer)
        self.shape, self.ndim, self.dtype, self.device = weight.shape, weight.ndim, weight.dtype, weight.device
        self.size, self.dim, self.numel = weight.size, weight.dim, weight.numel

    def __len__(self) -> int:
        return self.shape[0]


class _LayerRecorder(GraphAppendingTracer):
    """Records what a network does with a symbol, with one node per layer of ``torch.nn``.

    Parameters and buffers are symbols, too, so that values computed from them follow their training. Other tensors
    become constants.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(fx.Graph())
        self._model = model
        self.constants: dict[str, Tensor] = {}

    def write(self, names: tuple[str, ...] | None) -> fx.Graph:
        """Runs the network on a symbol, or on one for each of several named inputs, and returns the graph."""
        layers = {name: module for name, module in self._model.named_modules() if _is_layer(module)}
        weights = self._weights()
        for name, module in layers.items():
            module.forward = partial(self._called, name, module.forward)
        for place, key, _, symbol in weights:
            place[key] = symbol
        try:
            symbols = {name: fx.Proxy(self.graph.placeholder(name), self) for name in names or ("x",)}
            output = self._model(**symbols) if names else self._model(symbols["x"])
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
        """The place of every parameter and buffer, its value and its symbol; shared ones have the same symbol."""
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
            return forward(*args, **kwargs)  # the very same value, in case it is changed in place afterwards
        if any(isinstance(value, fx.Proxy) for value in (*args, *kwargs.values())):
            return self.create_proxy("call_module", name, args, kwargs)
        return forward(*args, **kwargs)

    def create_arg(self, a: Any) -> Any:
        """Names tensors that the user's code creates, and converts numpy numbers to Python's."""
        if isinstance(a, np.generic):
            return a.item()
        if not isinstance(a, Tensor):
            return super().create_arg(a)
        name = f"_constant_{len(self.constants)}"
        self.constants[name] = a.detach()
        self._model.register_buffer(name, self.constants[name], persistent=False)
        return self.graph.get_attr(name)


def _is_layer(module: nn.Module) -> bool:
    """Whether a module becomes a single node: a ``torch.nn`` module other than Sequential, without gates inside."""
    known = type(module).__module__.startswith("torch.nn.") and not isinstance(module, nn.Sequential)
    return known and not any(gate_hooks(part) for part in module.modules() if part is not module)


class _Values(fx.Interpreter):
    """Runs a graph and keeps the value and floating-point operations of every node."""

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
    """Makes every change in place return a new value, which later readers of the old one read instead."""
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
    """The operation of a node, or its counterpart that returns a new value instead of changing its operand."""
    target: Any = node.target
    if node.op not in ("call_method", "call_function"):
        return target
    name = target if node.op == "call_method" else target.__name__
    if not name.endswith("_") or name.endswith("__") or target in KEYWORDS:
        return IN_PLACE.get(target, target)
    return name[:-1] if node.op == "call_method" else getattr(torch, name[:-1], None) or getattr(F, name[:-1])


def _with_batch_sizes(graph: fx.Graph) -> None:
    """Replaces x.shape[0] by x.size(0)."""
    for node in graph.nodes:
        if node.target is operator.getitem and node.args[1] == 0:
            shape = node.args[0]
            if shape.target is getattr and shape.args[1] == "shape":
                node.op, node.target, node.args = "call_method", "size", (shape.args[0], 0)
